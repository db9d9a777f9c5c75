"""The tools that ship with the app, one file each."""
