"""A CLI in this process: a transport of the SDK that follows a script instead of starting a program."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Transport

from tests.patience import PATIENCE_S

MODEL = "claude-sonnet-4-6"
SERVER = "runtally"

Script: TypeAlias = Callable[["FakeCli", dict[str, Any]], Awaitable[None]]
"""What the CLI does with a user message."""


async def answer(cli: "FakeCli", message: dict[str, Any]) -> None:
    """Say hello."""
    cli.begin(message)
    cli.reply("hello")
    cli.result()


@dataclass(slots=True)
class FakeCli(Transport):
    """Speaks the CLI's side of the protocol; `client` is the SDK's client that speaks to it."""

    script: Script = answer
    options: ClaudeAgentOptions = field(default_factory=ClaudeAgentOptions)
    tools: tuple[str, ...] = ()
    """What its init message lists."""
    plugins: tuple[str, ...] = ()
    interrupted: asyncio.Event = field(default_factory=asyncio.Event)
    interrupts: int = 0
    prompts: list[dict[str, Any]] = field(default_factory=list)
    warm_ups: int = 0
    """Side questions it was asked."""
    may_answer: asyncio.Event | None = None
    """When it answers a side question; None: at once."""
    initialized: dict[str, Any] = field(default_factory=dict)
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    prompted: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False
    _lines: asyncio.Queue[dict[str, Any] | None] = field(default_factory=asyncio.Queue)
    _answers: dict[str, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _scripts: set[asyncio.Task[None]] = field(default_factory=set)

    def client(self, options: ClaudeAgentOptions) -> ClaudeSDKClient:
        """What a process is given in place of a client that starts the program."""
        self.options = options
        return ClaudeSDKClient(options, transport=self)

    async def connect(self) -> None:
        """See the SDK."""
        self.connected.set()

    async def write(self, data: str) -> None:
        """See the SDK."""
        message = json.loads(data)
        match message:
            case {"type": "control_request", "request_id": request_id, "request": request}:
                self._control(request_id, request)
            case {"type": "control_response", "response": {"request_id": request_id} as response}:
                self._answers.pop(request_id).set_result(response)
            case {"type": "user"}:
                self.prompts.append(message)
                self.prompted.set()
                running = asyncio.create_task(self._follow(message))
                self._scripts.add(running)

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """See the SDK."""
        while (line := await self._lines.get()) is not None:
            yield line

    async def close(self) -> None:
        """See the SDK."""
        self.closed = True
        self._lines.put_nowait(None)

    async def end_input(self) -> None:
        """See the SDK."""

    def is_ready(self) -> bool:
        """See the SDK."""
        return not self.closed

    def emit(self, **line: Any) -> None:
        """One line of its output."""
        self._lines.put_nowait({"session_id": "s", "uuid": f"u-{next(self._numbers)}", **line})

    def die(self) -> None:
        """Its output ends."""
        self._lines.put_nowait(None)

    def begin(self, message: dict[str, Any]) -> None:
        """A turn begins: it says what it has, and repeats the message that began it."""
        self.emit(
            type="system",
            subtype="init",
            tools=list(self.tools),
            mcp_servers=[{"name": SERVER}] if self.options.mcp_servers else [],
            plugins=[{"name": name} for name in self.plugins],
        )
        self.emit(**{**message, "uuid": message["uuid"]})

    def reply(self, text: str, *, message_id: str = "msg_1", parent: str | None = None) -> None:
        """A streamed message."""
        usage = {"input_tokens": 10, "output_tokens": 1}
        started = {"id": message_id, "model": MODEL, "usage": usage}
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        final = {"output_tokens": 20}
        for event in (
            {"type": "message_start", "message": started},
            delta,
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": final},
            {"type": "message_stop"},
        ):
            self.emit(type="stream_event", event=event, parent_tool_use_id=parent)

    def tool_use(self, name: str, call_id: str, **args: Any) -> None:
        """The model calls a tool."""
        block = {"type": "tool_use", "id": call_id, "name": name, "input": args}
        content = {"id": "msg_1", "role": "assistant", "model": MODEL, "content": [block], "usage": {}}
        self.emit(type="assistant", message=content, parent_tool_use_id=None)

    def tool_result(self, call_id: str, text: str, *, is_error: bool = False) -> None:
        """What the model gets of a call."""
        block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": is_error}
        self.emit(type="user", message={"role": "user", "content": [block]}, parent_tool_use_id=None)

    def result(self, **fields: Any) -> None:
        """A turn ends."""
        defaults = {
            "subtype": "success",
            "duration_ms": 1,
            "duration_api_ms": 1,
            "is_error": False,
            "num_turns": 1,
            "terminal_reason": "completed",
            "stop_reason": "end_turn",
            "result": "hello",
        }
        self.emit(type="result", **{**defaults, **fields})

    async def call_tool(self, tool_id: str, call_id: str, **args: Any) -> dict[str, Any]:
        """Call one of our tools, as the model asked: its result goes to the model."""
        self.tool_use(f"mcp__{SERVER}__{tool_id}", call_id, **args)
        params = {"name": tool_id, "arguments": args, "_meta": {"claudecode/toolUseId": call_id}}
        result = await self.mcp("tools/call", params)
        self.tool_result(call_id, result["content"][0]["text"], is_error=result.get("isError", False))
        return result

    async def mcp(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """A request to our MCP server."""
        if not self.initialized.get("mcp"):
            self.initialized["mcp"] = True
            info = {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            }
            await self.mcp("initialize", info)
            await self.send_request(
                subtype="mcp_message",
                server_name=SERVER,
                message={"jsonrpc": "2.0", "method": "notifications/initialized"},
            )
        message = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params or {}}
        answered = await self.send_request(subtype="mcp_message", server_name=SERVER, message=message)
        response: dict[str, Any] = answered["mcp_response"]
        result: dict[str, Any] = response["result"]
        return result

    async def hook(self, name: str, call_id: str | None = None, **details: Any) -> list[dict[str, Any]]:
        """Call the hooks of this name; their outputs."""
        matchers = (self.initialized["request"].get("hooks") or {}).get(name, [])
        given = {"hook_event_name": name, **details}
        return [
            await self.send_request(
                subtype="hook_callback", callback_id=callback, input=given, tool_use_id=call_id
            )
            for matcher in matchers
            for callback in matcher["hookCallbackIds"]
        ]

    async def send_request(self, **request: Any) -> dict[str, Any]:
        """A control request to the SDK."""
        request_id = f"cli-{next(self._numbers)}"
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[request_id] = future
        self._lines.put_nowait({"type": "control_request", "request_id": request_id, "request": request})
        response = await asyncio.wait_for(future, PATIENCE_S)
        assert response["subtype"] == "success", response
        answered: dict[str, Any] = response["response"]
        return answered

    async def _follow(self, message: dict[str, Any]) -> None:
        await self.script(self, message)

    def _control(self, request_id: str, request: dict[str, Any]) -> None:
        body: dict[str, Any] = {}
        if request["subtype"] == "initialize":
            self.initialized["request"] = request
            body = {"hook_on_failure_supported": True}
        elif request["subtype"] == "interrupt":
            self.interrupts += 1
            self.interrupted.set()
        elif request["subtype"] == "get_usage":
            body = {"session": {"model_usage": {}}}
        elif request["subtype"] == "side_question":
            self.warm_ups += 1
            if self.may_answer is not None:
                self._scripts.add(asyncio.create_task(self._answer_late(request_id, self.may_answer)))
                return
        self._respond(request_id, body)

    async def _answer_late(self, request_id: str, when: asyncio.Event) -> None:
        await when.wait()
        self._respond(request_id, {"response": "ready"})

    def _respond(self, request_id: str, body: dict[str, Any]) -> None:
        response = {"subtype": "success", "request_id": request_id, "response": body}
        self._lines.put_nowait({"type": "control_response", "response": response})


def write_pid(directory: Path, pid: int) -> None:
    """Do as the launcher of the only run does that has its folder there."""
    (run,) = directory.iterdir()
    (run / "pid").write_text(str(pid))
