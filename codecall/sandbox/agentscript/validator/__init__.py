"""Validator."""
