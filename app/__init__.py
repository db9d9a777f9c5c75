"""Runtally runs agent graphs and keeps the tally."""
