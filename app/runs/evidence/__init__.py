"""Evidence: what runs did, kept for operators as long as their contents."""
