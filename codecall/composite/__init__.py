"""Composite tools: workflows over the server's tools, declared in files, each of them served as one tool."""
