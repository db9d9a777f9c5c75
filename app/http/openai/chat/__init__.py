"""`chat/completions`: what clients post, and the answer as chunks or as one completion."""
