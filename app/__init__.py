"""Runtally: runs agent graphs over HTTP and bills each message exactly once."""
