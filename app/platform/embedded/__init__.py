"""The embedded PostgreSQL of a server without a DATABASE_URL."""
