"""Deployments of Managed Agents, which are schedules."""
