"""What OpenTelemetry is told: spans and metrics, under the names of `names.py`. Nothing where nobody listens."""
