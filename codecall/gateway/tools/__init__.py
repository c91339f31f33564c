"""What the servers list, filtered, cached on disk, and turned into FastMCP components."""
