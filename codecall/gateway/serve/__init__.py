"""Serving the gateway over stdio or HTTP."""
