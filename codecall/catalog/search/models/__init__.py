"""Embedding models: where one is, and what runs it."""
