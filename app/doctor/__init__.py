"""Says what of an installation cannot be used, by opening it as the server does."""
