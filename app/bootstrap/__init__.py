"""Builds all services from the settings; chooses implementations and closes everything in order."""
