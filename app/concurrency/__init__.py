"""How work shares the event loop, the interpreter and the processors."""
