"""The routes and JSON schemas of our own API, one package per resource."""
