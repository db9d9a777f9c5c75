"""Benchmarks: programs that measure alternatives side by side and print ratios."""
