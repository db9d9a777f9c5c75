"""How much an account keeps here, and how much it may."""
