"""The SDK of OpenTelemetry, which is an extra."""
