"""Opens what answers scrapes."""
