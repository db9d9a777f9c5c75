"""Erasure of end users: a job for each, which any process may go on with."""
