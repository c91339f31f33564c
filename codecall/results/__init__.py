"""Large results: their store, queries over them, and their MCP resources."""
