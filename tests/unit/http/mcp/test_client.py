"""What a request says of its client."""

from typing import Any

import pytest
from mcp_types import CLIENT_CAPABILITIES_META_KEY
from starlette.datastructures import Headers

from app.http.mcp.client import McpClient
from tests.integration.mcp_messages import WITH_TASKS, modern

ODD: tuple[Any, ...] = (True, 5, 1.5, "x", [[]], [None], {"extensions": 5}, {"extensions": True})


def client_with(capabilities: Any) -> McpClient:
    message = modern({"method": "tools/list", "jsonrpc": "2.0", "id": 1, "params": {}})
    message["json"]["params"]["_meta"][CLIENT_CAPABILITIES_META_KEY] = capabilities
    return McpClient.of(message["json"], Headers(message["headers"]))


@pytest.mark.parametrize("capabilities", ODD)
def test_capabilities_of_another_type_announce_nothing(capabilities: Any) -> None:
    client = client_with(capabilities)

    assert (client.has_tasks, client.has_forms) == (False, False)


def test_a_client_announces_tasks_and_forms() -> None:
    client = client_with({**WITH_TASKS, "elicitation": {}})

    assert (client.has_tasks, client.has_forms) == (True, True)
