"""A metering proxy on a loopback port between agents and the Messages API."""
