"""Language models: names, options, announced deprecations."""
