"""Large contents outside the database: in a bucket or a directory."""
