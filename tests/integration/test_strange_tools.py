"""A tool that cannot be used takes none of the others of its server with it."""

import pytest
from pydantic_core import from_json

from app.doctor.mcp_servers import check_mcp_servers
from app.graphs.spec import GraphSpec
from app.platform.json_schema.checker import SchemaChecker
from app.platform.serialization.repaired_json import parsable
from app.tools.mcp.servers import McpConnector
from app.tools.mcp.spec import HttpServer
from tests.integration.hostile_mcp import HostileServer, serving
from tests.integration.strange_tools import NAMES, OBJECT, TOOLS, UNUSABLE, USABLE, USABLE_NAMES
from tests.integration.test_hostile_tool_servers import connected


async def test_each_tool_is_normalized_or_left_out_with_the_reason(schemas: SchemaChecker) -> None:
    ids = tuple(f"library__{name}" for name in NAMES)
    async with (
        serving(HostileServer(lambda _params: {"tools": TOOLS})) as server,
        connected(schemas, server, ids) as connections,
    ):
        tools = dict.fromkeys(NAMES, "read_only")
        spec = HttpServer.model_validate({"type": "http", "url": server.url, "tools": tools})
        shown = {tool.id.removeprefix("library__"): tool.input_schema for tool in connections.tools}
        graph = GraphSpec(name="librarian", description="d", system_prompt="p", mcp_servers={"library": spec})
        (check,) = await check_mcp_servers([graph], McpConnector({}, schemas), has_token_key=False)
        reasons = {name.removeprefix("library__"): why for name, why in connections.unusable.items()}

    assert shown == {name: USABLE.get(name, (None, OBJECT))[1] for name in USABLE_NAMES}
    assert check.status == "error"
    assert all(f"{name}: {reason}" in check.detail for name, reason in connections.unusable.items())
    assert set(reasons) == {*UNUSABLE, "too_long"}
    for name, (_, part) in UNUSABLE.items():
        assert part in reasons[name], (name, reasons[name])


async def test_the_doctor_reports_each_server_whatever_the_others_do(schemas: SchemaChecker) -> None:
    tools = {"search": "read_only"}
    async with serving(HostileServer()) as server:
        common = {"type": "http", "url": server.url, "tools": tools}
        # The operator has not set this secret, and nothing has checked that before.
        oauth = {"grant": "client_credentials", "client_id": "a", "client_secret": "${MISSING}"}
        servers = {
            "unreachable": {**common, "url": "http://127.0.0.1:9/mcp"},
            "broken": {**common, "oauth": oauth},
            "library": common,
        }
        graph = GraphSpec(name="librarian", description="d", system_prompt="p", mcp_servers=servers)

        found = await check_mcp_servers([graph], McpConnector({}, schemas), has_token_key=False)

    assert [check.status for check in found] == ["error", "error", "ok"]
    assert "unreachable does not respond" in found[0].detail
    assert "broken: KeyError: 'MISSING'" in found[1].detail
    assert found[2].detail.endswith("library__search")


@pytest.mark.parametrize("text", ["[" * 500, "]" * 500, '"' * 500, "[" * 151 + '"]', "{}" * 400, "\\ud83d"])
def test_what_is_no_json_stays_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_json(parsable(text.encode()))
