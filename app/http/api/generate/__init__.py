"""One prompt, one answer."""
