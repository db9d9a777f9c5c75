"""Lines that are added to transcripts."""
