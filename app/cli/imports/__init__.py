"""Converts configuration of other programs to files of graphs."""
