"""One CLI process: its program, folder, environment, start and end."""
