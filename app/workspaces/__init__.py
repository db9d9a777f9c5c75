"""The files of runs: mounts, uploads and outputs."""
