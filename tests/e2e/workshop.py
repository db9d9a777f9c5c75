"""A graph with native tools, and what a model does with them, for stories about workspaces."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.simulator.script import Reply, Responder, Text, ToolUse, in_turn
from tests.e2e.stories import Heard, World
from tests.graph_files import graph_files

EDITOR = "claude_agents:editor"
ALL = "[Read, Write, Edit, Glob, Grep, Bash]"


def settings(directory: Path, *head: str, tools: str = ALL, **more: Any) -> dict[str, Any]:
    """Settings with the graph `editor`; `head` are further lines of its head."""
    lines = "\n".join(["description: Edits files.", f"native_tools: {tools}", *head])
    return {**graph_files(directory, editor=f"---\n{lines}\n---\nEdit files.\n"), **more}


def upload(path: str, content: str | bytes) -> dict[str, str]:
    """A file of a request."""
    data = content.encode() if isinstance(content, str) else content
    return {"path": path, "data": base64.b64encode(data).decode()}


def calling(*calls: ToolUse, last: str = "done") -> Responder:
    """A model that makes these calls one after the other, whatever comes of them."""
    return in_turn(*(Reply([call]) for call in calls), Reply([Text(last)]))


def bash(command: str, **more: Any) -> ToolUse:
    """A command."""
    return ToolUse("Bash", {"command": command, "description": "x", **more})


def answered(world: World) -> list[str]:
    """What the model was told its calls had come to, one text each."""
    requests = world.simulator.requests[1:]
    return [json.dumps(result["content"]) for request in requests for result in request.tool_results]


def results(events: Sequence[Heard]) -> list[tuple[Any, bool]]:
    """What clients were told of the calls."""
    told = [event.data for event in events if event.type == "tool_call_result"]
    return [(result["result"], result["isError"]) for result in told]


async def files(world: World, run_id: str) -> dict[str, dict[str, Any]]:
    """A run's files by path."""
    response = await world.http.get(f"/v1/runs/{run_id}/files")
    return {item["path"]: item for item in response.raise_for_status().json()["items"]}


async def read(world: World, run_id: str, path: str) -> bytes:
    """One of them."""
    return (await world.http.get(f"/v1/runs/{run_id}/files/{path}")).raise_for_status().content
