"""Usage of a run: what the SDK reports beside what the gateway measured."""
