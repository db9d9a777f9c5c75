"""PostgreSQL as a server: connections to it, what its errors mean, and whether it can be used."""
