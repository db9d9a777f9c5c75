"""Tools that come with a request and that its client executes."""
