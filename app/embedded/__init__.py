"""PostgreSQL from the wheel, for a server without a DATABASE_URL."""
