"""A question to a graph through each wire; the run is that of the wire, and its client may see an error."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias
from uuid import uuid4

import httpx

from tests.e2e.agents import MESSAGES
from tests.integration.mcp_messages import WITH_TASKS, a_call, beginning, in_session, modern

Door: TypeAlias = Callable[[httpx.AsyncClient, str, str], Awaitable[httpx.Response]]
"""By a client, the name of a graph of `messages`, and a text."""

CHAT: Final = "/openai/v1/chat/completions"
RESPONSES: Final = "/openai/v1/responses"
MANAGED: Final = "/managed-agents/v1/sessions"


def a_run(graph: str, text: str) -> dict[str, Any]:
    return {"graphId": f"{MESSAGES}:{graph}", "messages": [{"role": "user", "content": text}]}


async def stream(http: httpx.AsyncClient, graph: str, text: str) -> httpx.Response:
    return await http.post("/v1/runs/stream", json=a_run(graph, text))


async def wait(http: httpx.AsyncClient, graph: str, text: str) -> httpx.Response:
    return await http.post("/v1/runs/wait", json=a_run(graph, text))


async def ag_ui(http: httpx.AsyncClient, graph: str, text: str) -> httpx.Response:
    message = {"id": str(uuid4()), "role": "user", "content": text}
    thread = {"threadId": str(uuid4()), "runId": str(uuid4()), "messages": [message]}
    return await http.post(f"/v1/ag-ui/{MESSAGES}:{graph}", json=thread)


async def ai_sdk(http: httpx.AsyncClient, graph: str, text: str) -> httpx.Response:
    message = {"id": str(uuid4()), "role": "user", "parts": [{"type": "text", "text": text}]}
    chat = {"id": str(uuid4()), "messages": [message]}
    return await http.post(f"/v1/ai-sdk/{MESSAGES}:{graph}/chat", json=chat)


def openai(path: str, **more: Any) -> Door:
    async def ask(http: httpx.AsyncClient, graph: str, text: str) -> httpx.Response:
        asked = {"messages": [{"role": "user", "content": text}]} if path == CHAT else {"input": text}
        return await http.post(path, json={"model": f"{MESSAGES}:{graph}", **asked, **more})

    return ask


def mcp(**capabilities: Any) -> Door:
    async def ask(http: httpx.AsyncClient, graph: str, text: str) -> httpx.Response:
        return await http.post("/mcp", **modern(a_call(f"{MESSAGES}__{graph}", text), **capabilities))

    return ask


async def mcp_session(http: httpx.AsyncClient, graph: str, text: str) -> httpx.Response:
    session = (await http.post("/mcp", json=beginning())).headers["mcp-session-id"]
    return await http.post("/mcp", **in_session(session, a_call(f"{MESSAGES}__{graph}", text)))


async def managed(http: httpx.AsyncClient, graph: str, text: str) -> httpx.Response:
    said = {"type": "user.message", "content": [{"type": "text", "text": text}]}
    session = {"agent": f"{MESSAGES}:{graph}", "environment_id": "env_default", "initial_events": [said]}
    return await http.post(MANAGED, json=session)


DOORS: Final[dict[str, Door]] = {
    "native, streamed": stream,
    "native": wait,
    "AG-UI": ag_ui,
    "AI SDK": ai_sdk,
    "OpenAI": openai(CHAT),
    "OpenAI, streamed": openai(CHAT, stream=True),
    "responses": openai(RESPONSES),
    "responses, streamed": openai(RESPONSES, stream=True),
    "responses, in the background": openai(RESPONSES, background=True),
    "MCP": mcp(),
    "MCP, as a task": mcp(**WITH_TASKS),
    "MCP, in a session": mcp_session,
    "Managed Agents": managed,
}
