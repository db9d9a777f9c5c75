"""Checks of a request before its route runs: key, scope, rate, size, body."""
