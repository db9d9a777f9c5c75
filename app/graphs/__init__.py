"""Graph definitions: the file format, the catalog and the shipped graphs."""
