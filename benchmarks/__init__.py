"""Runnable measurements: each file prints a table and can be run on its own."""
