"""The HTTP protocol of our ports, servers on loopback ports, and the memory ceiling."""
