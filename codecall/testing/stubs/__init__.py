"""Stubs: answers of tools that a test states."""
