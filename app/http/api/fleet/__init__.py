"""The processes on one database."""
