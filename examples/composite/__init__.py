"""Composite tools over two servers that somebody else wrote: `mcp-server-git` and `server-memory`."""
