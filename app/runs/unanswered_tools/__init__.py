"""Runs of chats that wait for a client which has moved on."""
