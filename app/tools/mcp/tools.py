"""ToolMaker: makes a tool of the run from a tool of an external MCP server."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from mcp import types
from pydantic import BaseModel, ConfigDict

from app.platform.json_schema.checker import SchemaChecker, ValueUncheckable
from app.platform.json_schema.document import SchemaDocument, SchemaUnusable
from app.tools.argument_check import check_arguments
from app.tools.argument_schema import argument_schema
from app.tools.mcp.asking.elicitation import Elicitation
from app.tools.mcp.connection import ServerConnection
from app.tools.mcp.content import error_content, model_content
from app.tools.mcp.spec import AnyServer
from app.tools.mcp.text import cut_as_json, one_line
from app.tools.modern_schema import modern_schema
from runtally.tools.content import text_of
from runtally.tools.tool import Effect, ReportProgress, Tool, ToolContext, ToolFailed, ToolOutput

MAX_DESCRIPTION_CHARS = 20_000
_MAX_LABEL_CHARS = 200
_JSON_AROUND = len('{"text":}')


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
    spec: AnyServer
    connection: ServerConnection
    schemas: SchemaChecker
    elicitation: Elicitation | None = None
    """Asks a person what the server asks; None: the graph allows no questions."""

    async def make(
        self,
        tool_id: str,
        remote: types.Tool,
        effect: Effect,
        *,
        input_schema: dict[str, Any],
        output_schema: dict[str, Any] | None,
    ) -> Tool:
        """The tool; raises `SchemaUnusable` if its description or a schema cannot be used."""
        description = remote.description or remote.title or remote.name
        if len(description) > MAX_DESCRIPTION_CHARS:
            reason = f"its description is longer than {MAX_DESCRIPTION_CHARS} characters"
            raise SchemaUnusable("description", reason)
        owner = f"mcp:{self.server}"
        accepted = modern_schema(input_schema)
        # Without limit of waiting: many runs may connect to an operator's server at once.
        require_usable = partial(self.schemas.require_usable, owner=owner, max_waiting=None)
        document = await require_usable(accepted)
        shown, note = argument_schema(accepted)
        # What the API gets is checked as well: it must be a valid schema on its own.
        await require_usable(shown)
        arguments = _RemoteSchema(document, shown, self.schemas, owner)
        results = None
        if output_schema is not None:
            document = await require_usable(modern_schema(output_schema))
            results = _RemoteSchema(document, document.plain, self.schemas, owner)

        hints = remote.annotations
        patience_s = 0.0 if self.elicitation is None else self.elicitation.person.timeout_s
        repeatable = effect == "read_only" or bool(hints and hints.idempotent_hint)

        async def call(args: BaseModel, context: ToolContext) -> ToolOutput[_Answer]:
            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                label = self._label(tool_id, progress, total, message)
                await context.report_progress(label)

            with self._asking(context.report_progress):
                result = await self.connection.call(
                    remote.name, args.model_dump(mode="json"), repeatable=repeatable, on_progress=on_progress
                )
            return await self._output(result, results)

        return Tool(
            id=tool_id,
            description=description + note,
            effect=effect,
            input_model=_Arguments,
            output_model=_Answer,
            redact=("text",) if self.spec.show_results else (),
            timeout_s=self.spec.timeout_s,
            max_timeout_s=self.spec.longest_call_s + patience_s,
            max_result_bytes=self.spec.tool_result_bytes,
            handler=call,
            schema=arguments,
        )

    def _asking(self, report_progress: ReportProgress) -> AbstractContextManager[None]:
        """While the body runs, the server may ask a person during this call."""
        return nullcontext() if self.elicitation is None else self.elicitation.during_call(report_progress)

    def _label(self, tool_id: str, progress: float, total: float | None, message: str | None) -> str:
        """What clients see of the progress of a call."""
        if self.spec.show_progress and message and (text := one_line(message, _MAX_LABEL_CHARS)):
            return text
        return f"{tool_id}: {progress:g}" + ("" if total is None else f" of {total:g}")

    async def _output(
        self, result: types.CallToolResult, results: "_RemoteSchema | None"
    ) -> ToolOutput[_Answer]:
        limits = self.spec.limits
        if result.is_error:
            raise ToolFailed(error_content(result, limits) or "The tool failed.")
        if results is not None and not await results.matches(result.structured_content):
            raise ToolFailed("The tool's result does not match its own schema.")
        content = model_content(result, limits)
        text = text_of(content)
        shown = cut_as_json(text, limits.text_bytes - _JSON_AROUND)
        return ToolOutput(markdown=text, structured=_Answer(text=shown), content=content)


@dataclass(frozen=True, slots=True)
class _RemoteSchema:
    """A schema of the server, for arguments or structured results."""

    checked: SchemaDocument
    document: dict[str, Any]
    """As the model sees it."""
    schemas: SchemaChecker
    owner: str

    async def check(self, args: object) -> None:
        await check_arguments(self.schemas, self.checked, args, owner=self.owner)

    async def matches(self, result: object) -> bool:
        """Whether a result matches; False if it cannot be checked."""
        try:
            return await self.schemas.mismatch(self.checked, result, owner=self.owner) is None
        except (SchemaUnusable, ValueUncheckable):
            return False
