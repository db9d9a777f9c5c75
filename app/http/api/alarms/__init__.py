"""Billing anomalies that need attention."""
