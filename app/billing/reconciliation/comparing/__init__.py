"""What differs between reports and receipts, where, and why; pure."""
