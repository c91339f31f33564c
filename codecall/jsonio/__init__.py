"""Decodes, indexes and digests JSON, within bounds of time and size."""
