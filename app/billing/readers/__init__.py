"""Roles of the database that read the billing views."""
