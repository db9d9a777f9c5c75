"""Calls that left through the gateway, and messages that are not charged."""
