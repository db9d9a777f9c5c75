"""ToolMaker: makes a tool of the run from a tool of an external MCP server."""

from dataclasses import dataclass
from typing import Any

from mcp import Client, MCPError, types
from pydantic import BaseModel, ConfigDict

from app.json_schema.checker import SchemaChecker, ValueUncheckable
from app.json_schema.document import SchemaUnusable
from app.tools.mcp_limits import ResponseLimit
from app.tools.model_schema import model_schema
from app.tools.tool import (
    ArgumentsRefused,
    Effect,
    Tool,
    ToolContext,
    ToolFailed,
    ToolOutput,
    ToolResultTooLarge,
)

MAX_DESCRIPTION_CHARS = 20_000


class _Answer(BaseModel):
    """The result of a remote tool."""

    text: str


class _Arguments(BaseModel):
    """Arguments; the server's own schema validates them."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True, slots=True)
class ToolMaker:
    """Makes tools from those of one connected server."""

    server: str
    client: Client
    schemas: SchemaChecker
    limit: ResponseLimit
    timeout_s: float
    max_result_bytes: int
    show_results: bool

    async def make(
        self, tool_id: str, remote: types.Tool, effect: Effect, *, output_schema: dict[str, Any] | None
    ) -> Tool:
        """The tool; raises `SchemaUnusable` if its description or a schema cannot be used."""
        description = remote.description or remote.title or remote.name
        if len(description) > MAX_DESCRIPTION_CHARS:
            reason = f"its description is longer than {MAX_DESCRIPTION_CHARS} characters"
            raise SchemaUnusable("description", reason)
        owner = f"mcp:{self.server}"
        for schema in filter(None, (remote.input_schema, output_schema)):
            await self.schemas.require_usable(schema, owner=owner)
        shown, note = model_schema(remote.input_schema)
        arguments = _RemoteSchema(remote.input_schema, shown, self.schemas, owner)
        results = None
        if output_schema is not None:
            results = _RemoteSchema(output_schema, output_schema, self.schemas, owner)

        async def call(args: BaseModel, _context: ToolContext) -> ToolOutput[_Answer]:
            text = await self._call(remote.name, args.model_dump(mode="json"), results)
            return ToolOutput(markdown=text, structured=_Answer(text=text))

        return Tool(
            id=tool_id,
            description=description + note,
            effect=effect,
            input_model=_Arguments,
            output_model=_Answer,
            redact=("text",) if self.show_results else (),
            timeout_s=self.timeout_s,
            max_result_bytes=self.max_result_bytes,
            handler=call,
            schema=arguments,
        )

    async def _call(self, name: str, arguments: dict[str, Any], results: "_RemoteSchema | None") -> str:
        try:
            result = await self.client.call_tool(name, arguments)
        except MCPError as error:
            if self.limit.take_exceeded():
                message = f"The result is larger than {self.max_result_bytes} bytes; ask for less."
                raise ToolResultTooLarge(message) from error
            raise
        text = "\n\n".join(map(_text, result.content))
        if result.is_error:
            raise ToolFailed(text or "The tool failed.")
        if results is not None and not await results.matches(result.structured_content):
            message = "The tool's result does not match its own schema."
            raise ToolFailed(message)
        return text


@dataclass(frozen=True, slots=True)
class _RemoteSchema:
    """A schema of the server, for arguments or structured results."""

    checked: dict[str, Any]
    document: dict[str, Any]
    """As the model sees it."""
    schemas: SchemaChecker
    owner: str

    async def check(self, args: object) -> None:
        """See `ArgumentSchema`."""
        try:
            mismatch = await self.schemas.mismatch(self.checked, args, owner=self.owner)
        except (SchemaUnusable, ValueUncheckable) as error:
            raise ArgumentsRefused("", f"they cannot be checked: {error}") from error
        if mismatch is not None:
            raise ArgumentsRefused(".".join(mismatch.path), mismatch.reason)

    async def matches(self, result: object) -> bool:
        """Whether a result matches; False if it cannot be checked."""
        try:
            return await self.schemas.mismatch(self.checked, result, owner=self.owner) is None
        except (SchemaUnusable, ValueUncheckable):
            return False


def _text(content: types.ContentBlock) -> str:
    return content.text if isinstance(content, types.TextContent) else f"[{content.type}]"
