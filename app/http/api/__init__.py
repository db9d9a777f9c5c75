"""The routes and the JSON of our own API, one package per noun."""
