"""The gateway: CodeCall in front of MCP servers that somebody else wrote. `codecall serve` runs it."""
