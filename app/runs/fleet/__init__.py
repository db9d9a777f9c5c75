"""What all processes on one database execute, and what waits for them."""
