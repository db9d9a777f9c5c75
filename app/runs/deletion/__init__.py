"""Delete what ended runs hold."""
