"""The catalog cache: tool listings that are reused between requests."""
