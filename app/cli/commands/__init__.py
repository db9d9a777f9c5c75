"""Options of groups of commands."""
