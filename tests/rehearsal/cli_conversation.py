"""A conversation with a tool call in each mode of the CLI: messages, request, hooks and transcript."""

import asyncio
import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    Message,
    StreamEvent,
    SystemMessage,
)
from claude_agent_sdk.types import HookEvent, McpSdkServerConfig
from mcp import types
from mcp.server import Server

from app.executors.claude_agent.graph_keys import NativeTool
from app.executors.claude_agent.options.sdk_options import build_options
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.tools.names import SERVER_NAME, bridged_name
from app.graphs.spec import AGENT_TOOL, AgentSpec, GraphSpec
from app.ids import AccountId, new_uuid
from app.simulator.script import Answer, ApiRequest, Reply, Text, Thinking, ToolUse
from app.simulator.server import Simulator
from tests.e2e.recording_cli import Start, a_recording_cli, starts
from tests.factories import a_conversation, a_plan
from tests.rehearsal.facts import Fact, names, shape
from tests.rehearsal.started_cli import a_folder, a_launcher, asked, result_of
from tests.unit.tools.samples.weather import weather

_TOOL = "demo__weather"
_HELPER = AgentSpec(description="Looks things up.", prompt="Look it up.", tools=(_TOOL,))
_VARYING = {"content-length", "host", "x-claude-code-session-id", "x-client-request-id"}
_USED_BY = {
    "command line": "app/executors/claude_agent/options/sdk_options.py",
    "init": "app/executors/claude_agent/options/init_check.py",
    "message": "app/executors/claude_agent/mapper.py, run_stream.py",
    "result": "app/executors/claude_agent/result.py",
    "event": "app/executors/claude_agent/meters/usage.py",
    "header": "app/gateway/exchange.py",
    "body": "app/gateway/prompt_cache/prompt.py",
    "tool": "app/executors/claude_agent/tools/builtin_tools.py",
    "system block": "app/executors/claude_agent/prompt.py",
    "text of a message": "app/executors/claude_agent/prompt.py",
    "hook": "app/executors/claude_agent/tools/sdk_hooks.py",
    "meta of a tool call": "app/executors/claude_agent/tools/mcp_bridge.py",
    "transcript": "app/conversations/sdk_transcript.py",
}


def conversation_facts() -> Iterator[Fact]:
    """The facts of both modes."""
    for mode in ("lean", "full"):
        found = asyncio.run(_Conversation(full=mode == "full").held())
        for kind, value in found.items():
            yield Fact(f"CLI, {mode} mode", kind, value, _USED_BY[kind])


class _Conversation:
    """One run: a tool call, its result, an answer."""

    def __init__(self, *, full: bool) -> None:
        self._full = full
        self._hooks: set[str] = set()
        self._meta: set[str] = set()

    async def held(self) -> dict[str, dict[str, str]]:
        with a_folder() as run, tempfile.TemporaryDirectory(prefix="rehearsal-") as records:
            async with Simulator(_answer) as simulator:
                recorder = a_recording_cli(Path(records)).path
                async with ClaudeSDKClient(
                    self._options(run, a_launcher(run, simulator.url, recorder))
                ) as client:
                    messages = await asked(client, "How is the weather?")
            (start,) = starts(Path(records))
            found = {
                "command line": _arguments(start),
                **_of_messages(messages),
                **_of_request(simulator.requests[0]),
                "hook": names(self._hooks),
                "meta of a tool call": names(self._meta),
                "transcript": names(_transcript(run)),
            }
            places = {str(run.path): "<run>", str(Path(records)): "<records>"}
            return {kind: _without(parts, places) for kind, parts in found.items()}

    def _options(self, run: RunDirectory, launcher: Path) -> ClaudeAgentOptions:
        agents = {"helper": _HELPER} if self._full else {}
        spec = GraphSpec(name="g", description="d", system_prompt="p", tools=(_TOOL,), agents=agents)
        run.system_prompt_file.write_text("You are helpful.", encoding="utf-8")
        plan = a_plan(spec=spec, tools=(weather,), conversation=a_conversation(AccountId(new_uuid())))
        options = build_options(
            plan,
            launcher=launcher,
            system_prompt_file=run.system_prompt_file,
            work=run.work,
            server=self._server(),
            hooks=None,
            full=self._full,
        )
        if not self._full:
            return options
        events = [event for literal in get_args(HookEvent) for event in get_args(literal)]
        hooks: Any = {event: [HookMatcher(hooks=[self._record_hook])] for event in events}
        return replace(options, tools=[AGENT_TOOL, *get_args(NativeTool)], hooks=hooks)

    async def _record_hook(self, given: Any, _tool_use_id: Any, _context: Any) -> Any:
        self._hooks |= {f"{given['hook_event_name']}: {name}" for name in given}
        return {}

    def _server(self) -> McpSdkServerConfig:
        async def listed(_context: Any, _params: Any) -> types.ListToolsResult:
            schema = {"type": "object", "properties": {"city": {"type": "string"}}}
            return types.ListToolsResult(tools=[types.Tool(name=_TOOL, input_schema=schema)])

        async def called(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
            self._meta |= set(dict(params.meta or {}))
            return types.CallToolResult(content=[types.TextContent(type="text", text="sunny")])

        server: Server[Any] = Server(SERVER_NAME, version="1", on_list_tools=listed, on_call_tool=called)
        return McpSdkServerConfig(type="sdk", name=SERVER_NAME, instance=server)


def _answer(request: ApiRequest) -> Answer:
    if request.tool_results:
        return Reply([Text("It is sunny.")])
    return Reply([Thinking("Let me see."), Text("I look."), ToolUse(bridged_name(_TOOL), {"city": "Rome"})])


def _arguments(start: Start) -> dict[str, str]:
    """Each option with its value; what is JSON may have any order."""
    found: dict[str, str] = {}
    option = ""
    for argument in start.arguments:
        if argument.startswith("--"):
            option, _, value = argument.partition("=")
            found[option] = value
        else:
            found[option] = argument
    return found


def _of_messages(messages: list[Message]) -> dict[str, dict[str, str]]:
    init = next(
        message.data
        for message in messages
        if isinstance(message, SystemMessage) and message.subtype == "init"
    )
    lists = ("tools", "mcp_servers", "plugins", "slash_commands", "skills", "agents")
    listed = {f"{name} {_name(each)}" for name in lists for each in init.get(name, [])}
    result = result_of(messages)
    return {
        "init": {**{name: shape(value) for name, value in init.items()}, **names(listed)},
        "message": {
            f"{kind}.{name}": shape(value)
            for message in messages
            for kind, name, value in _parts(message)
            if value is not None
        },
        "event": names(
            f"{message.event['type']}: {name}"
            for message in messages
            if isinstance(message, StreamEvent)
            for name in message.event
        ),
        "result": {
            **{
                name: str(getattr(result, name))
                for name in ("subtype", "terminal_reason", "stop_reason", "num_turns")
            },
            **names(f"model_usage {name}" for usage in (result.model_usage or {}).values() for name in usage),
            **names(f"usage {name}" for name in result.usage or {}),
        },
    }


def _parts(message: Message) -> Iterator[tuple[str, str, Any]]:
    kind = type(message).__name__
    if isinstance(message, SystemMessage):
        kind = f"{kind} {message.subtype}"
    if is_dataclass(message):
        for field in fields(message):
            yield kind, field.name, getattr(message, field.name)


def _name(each: Any) -> str:
    return str(each["name"]) if isinstance(each, dict) else str(each)


def _of_request(request: ApiRequest) -> dict[str, dict[str, str]]:
    body = request.body
    blocks = body["system"] if isinstance(body["system"], list) else [{"text": body["system"]}]
    simple = {
        name: value for name, value in body.items() if name not in {"system", "tools", "messages", "metadata"}
    }
    return {
        "header": {name: value for name, value in request.headers.items() if name not in _VARYING},
        "body": {
            **{name: json.dumps(value, sort_keys=True) for name, value in simple.items()},
            **names(f"metadata.{name}" for name in body.get("metadata", {})),
        },
        "system block": {str(number): block["text"] for number, block in enumerate(blocks)},
        "text of a message": {
            f"{number} {message['role']}": json.dumps(message["content"], sort_keys=True)
            for number, message in enumerate(body["messages"])
        },
        "tool": {tool["name"]: _tool(tool) for tool in body.get("tools", [])},
    }


def _tool(tool: dict[str, Any]) -> str:
    """A description is too long to show, and part of the prompt."""
    digest = hashlib.sha256(json.dumps(tool, sort_keys=True).encode()).hexdigest()[:8]
    properties = ", ".join(sorted(tool.get("input_schema", {}).get("properties", {})))
    return f"({properties}), description of {len(tool.get('description', ''))} characters, {digest}"


def _transcript(run: RunDirectory) -> Iterable[str]:
    for path in run.transcripts.glob("*.jsonl"):
        for line in path.read_text("utf-8").splitlines():
            entry = json.loads(line)
            for name, value in entry.items():
                yield f"{entry['type']}: {name} ({shape(value)})"


def _without(parts: dict[str, str], places: dict[str, str]) -> dict[str, str]:
    """Without what differs between two runs of the same program."""
    for place, name in places.items():
        parts = {part: text.replace(place, name) for part, text in parts.items()}
    return parts
