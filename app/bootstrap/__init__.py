"""Settings in, services out: the only place that picks adapters and knows the order of closing."""
