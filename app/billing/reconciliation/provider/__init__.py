"""The usage and cost reports of the provider's Admin API."""
