"""Deployments of Managed Agents: schedules whose runs each begin a session."""
