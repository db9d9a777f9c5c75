"""The way of a sandbox's commands to the hosts that a graph names."""
