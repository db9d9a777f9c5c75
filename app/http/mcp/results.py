"""CallAnswer: what the client of a call is answered, in a stream of its run or when it asks for its task."""

from dataclasses import dataclass, field
from typing import Any, Final

from mcp_types import CallToolResult, ProgressToken, RequestId, TextContent

from app.events import PermissionRequest, QuestionAsked
from app.http.mcp.client import McpClient
from app.http.mcp.forms import Asked, form_of
from app.http.mcp.input import OURS, name_of_run
from app.http.mcp.mapper import CallMapper
from app.http.streaming.pausing import Waiting, what_waits
from app.runs.events.failures import failure_of
from app.runs.records import RunRecord

_RELATED_TASK: Final = "io.modelcontextprotocol/related-task"


@dataclass(frozen=True, slots=True)
class Answering:
    """The request that is answered."""

    client: McpClient
    message_id: RequestId
    token: ProgressToken | None
    """By which the client recognises notifications of progress; None: it wants none."""
    may_approve: bool
    """Whether its caller may decide about calls of tools."""
    page: str
    """The URL where a person answers what waits."""
    is_structured: bool = False
    """Whether its tool has an output schema: clients then refuse an unstructured result that is no error."""
    is_task: bool = False
    """Whether it asks for a task: its answer is the end of the run."""


@dataclass(slots=True)
class CallAnswer:
    """Answers by what is known of the run: feed `mapper` with its entries."""

    record: RunRecord
    to: Answering
    decided: frozenset[str] = frozenset()
    """The requests that need no person any more."""
    mapper: CallMapper = field(default_factory=CallMapper)

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` of a result."""
        run = self.record
        conversation = {} if run.state_key is None else {f"{OURS}conversation": run.state_key}
        return {f"{OURS}runId": run.key.run_id, **conversation, **self.related}

    @property
    def related(self) -> dict[str, Any]:
        """What names the task in the `_meta` of a message that belongs to it."""
        return {_RELATED_TASK: {"taskId": self.record.key.run_id}} if self.to.is_task else {}

    @property
    def waiting(self) -> list[Waiting]:
        """What a person has to answer."""
        return [each for name, each in self.mapper.pending.items() if name not in self.decided]

    @property
    def has_forms(self) -> bool:
        """Whether the client's user can answer all of it in the client."""
        return all(map(self.has_form, self.waiting))

    def has_form(self, waiting: Waiting) -> bool:
        """Whether the client's user can answer this in the client."""
        if not self.to.client.has_forms:
            return False
        if isinstance(waiting, PermissionRequest):
            return self.to.may_approve
        return isinstance(waiting, QuestionAsked)

    def form(self, asked: Asked) -> dict[str, Any]:
        """The parameters of the request that asks for it."""
        meta = {"_meta": self.related} if self.related else {}
        return {**form_of(asked, has_lists=self.to.client.has_lists), **meta}

    @property
    def requests(self) -> dict[str, Any]:
        """The requests of an answer that asks for all of it."""
        return {
            each.request_id: {"method": "elicitation/create", "params": self.form(each)}
            for each in self.waiting
            if isinstance(each, PermissionRequest | QuestionAsked)
        }

    @property
    def link(self) -> str:
        """What waits, and the page for it."""
        what = "; ".join(map(what_waits, self.waiting))
        return f"Waiting for a person: {what}. {self.to.page}?runId={self.record.key.run_id}"

    def result(self) -> CallToolResult:
        """The result of a run that has ended."""
        if self.mapper.error is not None:
            return self._of_text(failure_of(self.mapper.error).detail, is_error=True)
        final = self.mapper.final
        structured = None if final is None else final.structured_output
        result = self._of_text(self.mapper.answer)
        # Earlier revisions have objects only.
        return result.model_copy(
            update={"structured_content": structured if isinstance(structured, dict) else None}
        )

    def linked(self) -> CallToolResult:
        """The result of a call whose run waits for what its client cannot ask."""
        notice = (
            f"[{self.link} Then call this tool again with conversation "
            f'"{name_of_run(self.record.key.run_id)}" to get the answer.]'
        )
        text = f"{self.mapper.text}\n\n{notice}".strip()
        return self._of_text(text, is_error=self.to.is_structured)

    def _of_text(self, text: str, *, is_error: bool = False) -> CallToolResult:
        content = [TextContent(type="text", text=text)]
        return CallToolResult.model_validate({"content": content, "isError": is_error, "_meta": self.meta})
