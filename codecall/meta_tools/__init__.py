"""What the model calls: search, describe, invoke and execute, each a FastMCP tool of its own class."""
