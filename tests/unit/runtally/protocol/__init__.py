"""What both clients send and read."""
