"""The metrics of a server in Prometheus's format; the only package that imports its client."""
