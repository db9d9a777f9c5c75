"""Transcripts of conversations, and what of a posted history they contain already."""
