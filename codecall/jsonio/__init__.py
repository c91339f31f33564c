"""Jsonio."""
