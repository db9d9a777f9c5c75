"""What runs will cost, from what earlier ones have cost."""
