"""PostgreSQL as a server: what its errors mean, and whether its version and schema can be used."""
