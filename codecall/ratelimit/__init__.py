"""Ratelimit."""
