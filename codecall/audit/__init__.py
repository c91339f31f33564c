"""The audit record: events of runs, and the sinks they are written to."""
