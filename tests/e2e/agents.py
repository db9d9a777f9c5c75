"""Runs the same story with each executor of a graph: `@every_agent`.

The story names a graph of `claude_agents` and its tools as the CLI calls them. For the other executor its
client names the other graph, and the model calls the tools by their own names.
"""

import inspect
from dataclasses import replace
from typing import Any

import httpx
import pytest

from app.executors.claude_agent import graph_keys as claude_agent
from app.executors.claude_agent.tools.names import tool_id_of
from app.executors.messages_api import graph_keys as messages_api
from app.simulator.script import Answer, ApiRequest, Block, Reply, Responder, ToolUse

CLAUDE, MESSAGES = claude_agent.PROVIDER, messages_api.PROVIDER

every_agent = pytest.mark.parametrize("agent", [CLAUDE, MESSAGES])
"""For tests with `world_of` or `open_world`."""

every_agent_at_length = pytest.mark.parametrize(
    "agent", [pytest.param(CLAUDE, marks=pytest.mark.long), MESSAGES]
)
"""The same for what starts many CLIs, while shorter tests prove each part of it with one."""

without_cli = pytest.mark.parametrize("agent", [MESSAGES])
"""For what does not depend on the executor; starting a CLI takes most of the time of a short test."""


class AgentClient(httpx.AsyncClient):
    """A client whose runs are those of another executor."""

    def __init__(self, agent: str, **options: Any) -> None:
        super().__init__(**options)
        self._agent = agent

    def build_request(self, *args: Any, json: Any = None, **options: Any) -> httpx.Request:
        """See httpx."""
        if isinstance(json, dict) and str(json.get("graphId")).startswith(f"{CLAUDE}:"):
            json = {**json, "graphId": f"{self._agent}:{json['graphId'].removeprefix(f'{CLAUDE}:')}"}
        return super().build_request(*args, json=json, **options)


def named(agent: str, responder: Responder) -> Responder:
    """The model, as this executor names its tools."""
    if agent == CLAUDE:
        return responder

    async def respond(request: ApiRequest) -> Answer:
        answer = responder(request)
        answer = await answer if inspect.isawaitable(answer) else answer
        if not isinstance(answer, Reply):
            return answer
        return replace(answer, blocks=[_renamed(block) for block in answer.blocks])

    return respond


def named_by_caller(responder: Responder) -> Responder:
    """The model in a world where both executors call it."""
    without_cli = named(MESSAGES, responder)

    async def respond(request: ApiRequest) -> Answer:
        by_cli = any(tool_id_of(name) != name for name in request.tool_names)
        answer = (responder if by_cli else without_cli)(request)
        return await answer if inspect.isawaitable(answer) else answer

    return respond


def _renamed(block: Block) -> Block:
    return replace(block, name=tool_id_of(block.name)) if isinstance(block, ToolUse) else block
