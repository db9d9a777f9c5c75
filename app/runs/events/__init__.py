"""Events of runs: publishing, reading, storage encoding, and the terminal events."""
