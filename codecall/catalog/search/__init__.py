"""Finding tools: by words, by meaning."""
