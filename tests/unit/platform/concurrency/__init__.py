"""How work shares the event loop."""
