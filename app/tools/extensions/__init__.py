"""Code of the operator that takes part in runs: hooks, and the provider of credentials."""
