"""Tell accounts' own servers what happened."""
