"""What the CLI is started with, and the check that it starts with nothing else."""
