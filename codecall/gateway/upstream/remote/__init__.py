"""What servers behind a URL need beside the transport: that messages arrive, and that tokens go where they belong."""
