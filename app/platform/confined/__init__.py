"""Work on foreign input in processes that are killed when it takes too long."""
