"""Chats whose clients name neither the conversation nor its messages."""
