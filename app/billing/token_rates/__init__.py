"""Limits of the tokens that keys use in a minute."""
