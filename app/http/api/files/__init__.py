"""Files of a run."""
