"""Runtally: runs agent graphs over HTTP and bills each message exactly once."""

__version__ = "0.1.0"
"""The release: the package's metadata, the API and the command line get it from here."""
