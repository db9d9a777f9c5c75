"""The HTTP API; the only package that imports FastAPI and Starlette."""
