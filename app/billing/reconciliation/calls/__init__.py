"""Calls that left through the gateway, and messages that nobody is charged for."""
