"""Skills: instructions of the operator that agents read when a task needs them."""
