"""Whom we trust when we call others."""

import ssl
from functools import cache

import httpx


@cache
def trusted() -> ssl.SSLContext:
    """The usual authorities, nothing of this machine's environment. Reading them takes 25 ms, so: once."""
    return httpx.create_ssl_context(trust_env=False)
