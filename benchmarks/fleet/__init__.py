"""A fleet of the real program's processes, measured beside a single process; see `__main__`."""
