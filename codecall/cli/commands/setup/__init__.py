"""Commands that set up the gateway: its configuration, and those of clients."""
