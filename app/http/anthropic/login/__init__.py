"""Sign-in of Claude Code to this server, as to a gateway of its provider."""
