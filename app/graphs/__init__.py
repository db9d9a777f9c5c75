"""Graph definitions: the format, the files, the shipped graphs."""
