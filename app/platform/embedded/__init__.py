"""PostgreSQL of a server without a DATABASE_URL, and Valkey of several processes without a REDIS_URL."""
