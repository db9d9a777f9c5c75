"""A scripted Messages API for the demo and the tests."""
