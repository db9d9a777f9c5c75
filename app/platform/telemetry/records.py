"""What the trace of a run is made of, before it has a form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from app.ids import RunKey
from app.platform.telemetry.attributes import Backend
from app.platform.telemetry.trace_context import RunTraceContext
from app.usage.records import UsageFact


@dataclass(frozen=True, slots=True)
class TracedRun:
    """A run, or one attempt of it, as its trace names it."""

    run: RunKey
    attempt: int
    context: RunTraceContext
    graph_id: str
    model: str
    conversation: str | None
    accepted_at: datetime
    end_user: str | None = None
    tags: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class PricedAnswer:
    """The answer of a call of the model, with the cost that its receipt will have."""

    fact: UsageFact
    cost_usd: Decimal
    cost_by_kind: Mapping[str, Decimal] = field(default_factory=dict)
    """Dollars by kind of token; `other` is everything else, such as factors and searches."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended."""

    status: str
    finish_reason: str
    error: str | None
    input_tokens: int
    """With reads and writes of the cache."""
    output_tokens: int
    content: str


@dataclass(frozen=True, slots=True)
class SpanOptions:
    """What spans contain besides the conventions' attributes."""

    backends: frozenset[Backend] = frozenset()
    captures_content: bool = False
