"""Large contents of transcripts, outside the database."""
