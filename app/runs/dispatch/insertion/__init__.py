"""The SQL with which `acceptance` stores the row of a run, and its place in the queue."""
