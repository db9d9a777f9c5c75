"""The MCP server of the library: what is answered without a run; graphs as tools, suggestions as prompts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_one
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types.methods import serialize_server_result
from mcp_types.version import is_version_at_least

from app import __version__
from app.graphs.schemas import CONVERSATION
from app.graphs.spec import GraphSpec
from app.http.mcp.client import TASKS, McpClient

CALL: Final = "tools/call"
_MESSAGE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "minLength": 1, "description": "What the agent is to do or to answer."}
    },
    "required": ["message"],
    "additionalProperties": False,
}
_CONVERSATION: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 200,
    "description": (
        "A name of your choice: calls with the same name continue one conversation, in which the "
        "agent remembers what was said. Without it each call stands for itself."
    ),
}


def tool_name(graph_id: str) -> str:
    """The name of a graph's tool; names of tools have no colon."""
    return graph_id.replace(":", "__")


def tool_of(graph: GraphSpec) -> types.Tool:
    """A graph as a tool."""
    changes = bool(graph.all_tools or graph.native_tools or graph.agents)
    hints = types.ToolAnnotations(read_only_hint=not changes, destructive_hint=changes, open_world_hint=True)
    return types.Tool(
        name=tool_name(graph.id),
        title=graph.shown_title,
        description=graph.description,
        input_schema=_arguments_of(graph),
        output_schema=output_of(graph),
        annotations=hints,
        execution=types.ToolExecution(task_support="optional"),
    )


def _arguments_of(graph: GraphSpec) -> dict[str, Any]:
    given = _MESSAGE if graph.input is None else graph.input.plain
    return {**given, "properties": {**given["properties"], CONVERSATION: _CONVERSATION}}


def output_of(graph: GraphSpec) -> dict[str, Any] | None:
    """The schema of `structuredContent` in its results; earlier revisions have objects only."""
    schema = None if graph.output is None else graph.output.document.plain
    return schema if schema is not None and schema.get("type") == "object" else None


def _prompts_of(graphs: Iterable[GraphSpec]) -> dict[str, tuple[types.Prompt, str]]:
    """The suggestions of graphs, by name, and what each says."""
    return {
        name: (
            types.Prompt(
                name=name, title=each.title, description=f"{graph.shown_title}: {graph.description}"
            ),
            f"With the tool {tool_name(graph.id)}: {each.message}",
        )
        for graph in graphs
        for number, each in enumerate(graph.suggestions, 1)
        for name in (f"{tool_name(graph.id)}__{number}",)
    }


async def _list(
    context: ServerRequestContext[Any, Iterable[GraphSpec]], _params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[tool_of(graph) for graph in context.request or ()])


async def _list_prompts(
    context: ServerRequestContext[Any, Iterable[GraphSpec]], _params: types.PaginatedRequestParams | None
) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[prompt for prompt, _ in _prompts_of(context.request or ()).values()]
    )


async def _get_prompt(
    context: ServerRequestContext[Any, Iterable[GraphSpec]], params: types.GetPromptRequestParams
) -> types.GetPromptResult:
    found = _prompts_of(context.request or ()).get(params.name)
    if found is None:
        raise MCPError(types.INVALID_PARAMS, "params.name: is not a prompt of a graph that this key may run")
    prompt, text = found
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(description=prompt.description, messages=[message])


SERVER: Final[Server[Any]] = Server(
    "runtally",
    version=__version__,
    title="Runtally",
    instructions="Each tool is an agent that works on a message until it has an answer.",
    on_list_tools=_list,
    on_list_prompts=_list_prompts,
    on_get_prompt=_get_prompt,
)
SERVER.extensions[TASKS] = {}
_TASK_CAPABILITIES: Final[dict[str, Any]] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}


@dataclass(slots=True)
class _Exchange:
    """One request without a way back; see `DispatchContext` of the library."""

    request_id: types.RequestId
    message_metadata: ServerMessageMetadata
    transport: TransportContext = field(
        default_factory=lambda: TransportContext(kind="streamable-http", can_send_request=False)
    )
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)
    can_send_request: bool = False

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,  # noqa: ARG002
        opts: CallOptions | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Refuse."""
        raise NoBackChannelError(method)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send nothing: no handler here has anything to say before its result."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send nothing."""


async def served(
    client: McpClient,
    message_id: types.RequestId,
    method: str,
    params: dict[str, Any] | None,
    graphs: Iterable[GraphSpec],
) -> dict[str, Any]:
    """The result of a request that is no call; raises `MCPError`, `ValidationError`."""
    result = await serve_one(
        SERVER,
        _Exchange(message_id, ServerMessageMetadata(request_context=graphs)),
        method,
        params,
        connection=Connection.from_envelope(client.version, client.info, client.capabilities),
        lifespan_state={},
    )
    # The library has no place for these.
    if method == "initialize" and is_version_at_least(result["protocolVersion"], "2025-11-25"):
        result["capabilities"]["tasks"] = _TASK_CAPABILITIES
    return result


def error_result(text: str) -> types.CallToolResult:
    """The result of a call that failed: the model gets the text."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def result_json(client: McpClient, result: types.Result) -> dict[str, Any]:
    """The result of a call in the client's revision."""
    plain = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    shaped = serialize_server_result(CALL, client.version, plain)
    return stamped(shaped) if client.is_modern else shaped


def stamped(result: dict[str, Any]) -> dict[str, Any]:
    """A result of the revision without sessions, which names the server in each."""
    return {
        **result,
        "_meta": {types.SERVER_INFO_META_KEY: SERVER.server_info_stamp, **result.get("_meta", {})},
    }
