"""Settings by subject; `Settings` has all."""
