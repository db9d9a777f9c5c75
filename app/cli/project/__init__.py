"""Lays out projects: `runtally init`."""
