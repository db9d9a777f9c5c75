"""What log lines name, and one line for each outage of something the server depends on."""
