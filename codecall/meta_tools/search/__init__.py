"""The meta-tool `codecall:search`: its arguments, the request to the index, which hits are shown, and how."""
