"""Redaction of error texts and of credentials in records and recordings."""
