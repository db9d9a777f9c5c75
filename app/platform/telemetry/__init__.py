"""OpenTelemetry: the trace of each run and the metrics of model calls; the only door to its packages."""
