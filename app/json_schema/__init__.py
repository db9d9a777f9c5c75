"""JSON schemas of clients and tool servers, checked in processes that can be killed."""
