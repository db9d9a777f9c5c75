"""A scripted Messages API: the demo's model and the tests' outside world."""
