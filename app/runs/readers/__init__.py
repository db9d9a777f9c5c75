"""Readers of runs that are cancelled when nothing reads them any more."""
