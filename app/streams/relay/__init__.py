"""The relay: a Valkey or Redis server that carries events and messages between processes."""
