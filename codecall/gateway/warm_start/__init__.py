"""Warm start."""
