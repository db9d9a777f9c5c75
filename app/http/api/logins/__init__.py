"""Logins of programs, as the page shows them that decides about them."""
