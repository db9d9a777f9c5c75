"""What of the provider only tests need: usage objects of every kind, and the reports of the Admin API."""
