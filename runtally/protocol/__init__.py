"""What both clients send and how they read it; without I/O."""
