"""What clients ask for: requests of runs, their messages and fields, and how runs end; pure."""
