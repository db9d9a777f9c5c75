"""A module that cannot be imported."""

message = "the weather service has no address"
raise RuntimeError(message)
