"""What is remembered of a server's listing between requests."""
