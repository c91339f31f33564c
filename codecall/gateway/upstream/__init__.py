"""Connections to the servers behind the gateway: stdio, HTTP and OpenAPI."""
