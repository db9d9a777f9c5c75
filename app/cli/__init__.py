"""The `runtally` command."""
