"""Runs of agents that clients execute: this server makes their calls of the model."""
