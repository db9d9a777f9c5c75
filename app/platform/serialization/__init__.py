"""Values of others made fit for JSON and the database, and how YAML is read; pure."""
