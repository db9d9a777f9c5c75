"""A run's files: what it is given, what it leaves behind, and for how long."""
