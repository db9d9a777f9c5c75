"""The prices of models: the library's and an operator's own."""
