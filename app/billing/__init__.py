"""Turn usage into money, once."""
