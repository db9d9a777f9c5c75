"""The tools of others that use a server, and their files."""
