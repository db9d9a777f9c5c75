"""Sessions of Managed Agents: conversations that have a graph and a budget before their first run."""
