"""Stubs."""
