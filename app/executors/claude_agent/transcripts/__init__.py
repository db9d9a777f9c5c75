"""Transcripts of the CLI: what is added to them, and the calls with which they end."""
