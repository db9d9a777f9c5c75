"""Sign-in of browsers."""
