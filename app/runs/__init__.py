"""Accept a run and carry it to its end."""
