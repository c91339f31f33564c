"""OpenTelemetry: spans and metrics under the names of `semconv.py`. Nothing is recorded where no provider is set."""
