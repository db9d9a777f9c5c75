"""What clients of the Model Context Protocol send, written out."""

import json
from typing import Any

from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY

MODERN = "2026-07-28"
WITH_TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
"""What a client of this revision announces that takes tasks for answers."""
ACCEPT = {"Accept": "application/json, text/event-stream"}
TOKEN = {"_meta": {"progressToken": "p"}}


def a_call(tool: str, message: str, **params: Any) -> dict[str, Any]:
    """A call of a tool."""
    given = {"name": tool, "arguments": {"message": message}, **params}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": given}


def of_task(method: str, task_id: str, **params: Any) -> dict[str, Any]:
    """A request about a task."""
    return {"jsonrpc": "2.0", "id": 2, "method": f"tasks/{method}", "params": {"taskId": task_id, **params}}


def modern(message: dict[str, Any], **capabilities: Any) -> dict[str, Any]:
    """The arguments of a request that has this message in the revision without sessions."""
    params = message["params"]
    meta = {
        PROTOCOL_VERSION_META_KEY: MODERN,
        CLIENT_CAPABILITIES_META_KEY: capabilities,
        **params.get("_meta", {}),
    }
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"], **ACCEPT}
    if named := params.get("name", params.get("taskId")):
        headers["Mcp-Name"] = named
    return {"json": {**message, "params": {**params, "_meta": meta}}, "headers": headers}


def beginning(**capabilities: Any) -> dict[str, Any]:
    """The message that begins a session."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "clientInfo": {"name": "c", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


def in_session(session: str, message: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a request in a session."""
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25", **ACCEPT}
    return {"json": message, "headers": headers}


def messages_in(stream: str) -> list[tuple[str | None, dict[str, Any]]]:
    """The messages of a stream and the ids of their events."""
    found = []
    for block in stream.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if fields.get("data", "").strip():
            found.append((fields.get("id"), json.loads(fields["data"])))
    return found
