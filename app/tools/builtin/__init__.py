"""The tools that ship, one file each."""
