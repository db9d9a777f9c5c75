"""How a run ends: its status, the result that clients get, and why it has none."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from app.ids import RunId
from app.requests.wire_models import LEFT_OUT_IF_NONE, WireModel


@dataclass(frozen=True, slots=True)
class SpentBudget:
    """A budget that is used up, as clients are refused with."""

    id: str
    resets_at: datetime | None
    """None: never."""

    @property
    def sentence(self) -> str:
        """It in one sentence."""
        return f"The budget {self.id} is used up" + (f" until {self.resets}." if self.resets_at else ".")

    @property
    def fields(self) -> dict[str, str | None]:
        """It as results and problems have it."""
        return {"budget": self.id, "resets_at": self.resets}

    @property
    def resets(self) -> str | None:
        """When it can be spent again, as text."""
        at = self.resets_at
        return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")


ErrorCode = Literal[
    "invalid_request",
    "not_found",
    "timeout",
    "aborted",
    "rate_limit",
    "internal",
    "insufficient_credits",
    "budget_reached",
    "provider_unavailable",
    "provider_refused",
    "agent_unavailable",
    "refused",
    "length",
    "context",
    "tool_server_unavailable",
    "database_unavailable",
]
"""Why a run did not succeed; clients get no other detail."""

FinishReason = Literal[
    "stop", "max_turns", "budget", "timeout", "aborted", "refused", "length", "context", "error"
]
RunStatus = Literal["queued", "running", "waiting", "succeeded", "failed", "cancelled"]


def _is_zero(value: object) -> bool:
    return value == 0


class FinalUsage(WireModel):
    """Tokens of the whole run: `promptTokens` counts input, cache reads and cache writes."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


_Text = Annotated[str | None, LEFT_OUT_IF_NONE]
_Tokens = Annotated[int | None, LEFT_OUT_IF_NONE]


class FileChange(WireModel):
    """A file that the run created, changed or deleted, and how its text differs from before."""

    path: str
    change: Literal["created", "changed", "deleted"]
    diff: Annotated[str | None, LEFT_OUT_IF_NONE] = None
    """In the unified format; none of a file that is not text, is too large, or came from a mount."""


class FileChanges(WireModel):
    """The files that differ from those with which the run began, by path."""

    files: tuple[FileChange, ...]
    more: Annotated[int, Field(exclude_if=_is_zero)] = 0
    """How many further files are not named."""


class GraphFinal(WireModel):
    """How a run ended."""

    ok: bool
    run_id: RunId
    request_id: str | None
    content: str
    structured_output: Any = None
    error: ErrorCode | None = None
    finish_reason: FinishReason
    usage: FinalUsage
    context_used: _Tokens = None
    """How long the conversation is for the model: the tokens of its last prompt and answer."""
    context_window: _Tokens = None
    """How long it may be, if that is known."""
    budget: _Text = None
    """The id of the budget that was reached."""
    resets_at: _Text = None
    """When it can be spent again."""
    cached: SkipJsonSchema[Annotated[tuple[int, int] | None, Field(exclude=True)]] = None
    """Those of the tokens of the prompts that were read from the cache, and that were written to it.

    For the wires whose usage has them: nothing else that clients get tells what a run has cost.
    """
    file_changes: Annotated[FileChanges | None, LEFT_OUT_IF_NONE] = None
    """What it changed in its workspace."""

    @property
    def status(self) -> RunStatus:
        if self.ok:
            return "succeeded"
        return "cancelled" if self.error == "aborted" else "failed"
