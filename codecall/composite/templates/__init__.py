"""Templates of composite tools: Go's `text/template`, by gotpl. No other package knows that engine."""
