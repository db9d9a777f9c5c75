"""Usage and balance."""
