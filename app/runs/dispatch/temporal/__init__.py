"""Dispatching by Temporal: each ready run is a workflow whose one activity any free worker executes."""
