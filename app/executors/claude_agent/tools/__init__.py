"""Our tools and the CLI's own tools: names, permissions, hooks."""
