"""Turn events into the frames of one wire format."""
