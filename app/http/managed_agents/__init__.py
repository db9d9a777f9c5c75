"""The API of Managed Agents: agents are graphs, sessions are conversations."""
