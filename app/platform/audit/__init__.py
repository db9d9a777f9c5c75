"""The audit log: what was done to accounts, their keys and their credit, and by which key."""
