"""Speak HTTP: the only door to FastAPI and Starlette."""
