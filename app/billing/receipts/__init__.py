"""From a usage fact to its receipt in the database."""
