"""Storage used by accounts, and its quota."""
