"""The meta-tool for Starlark scripts."""
