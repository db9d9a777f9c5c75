"""SdkMeter: the only meter of a run whose CLI uses the machine's own login.

No gateway is between that CLI and the provider. A message is recorded when the SDK shows that it
begins, before any other part of the run gets it. What the CLI's own totals hold beyond the messages
it showed came from hidden calls, and is reported as one more message per model.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import structlog
from claude_agent_sdk import Message, ResultMessage, StreamEvent

from app.billing.prices.usage_reading import ADVISOR
from app.executors.claude_agent.meters.cli_costs import CliCosts
from app.executors.claude_agent.meters.port import EXECUTOR_TYPE
from app.executors.claude_agent.meters.usage import MeteredMessage, is_message_id
from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.metering import usage_fact
from app.executors.port import RunPlan
from app.gateway.answer_usage import MessageUsage
from app.gateway.channel import Channel
from app.ids import MessageId
from app.storable import identifier
from app.usage.provider import Reported, clean_usage, list_of, model_of_iteration, object_of, token_usage
from app.usage.records import Meters, Origin, TokenUsage, UsageFact

log = structlog.get_logger(__name__)

Totals = Mapping[str, TokenUsage]
"""What the CLI has counted since it started, by requested model."""


RESIDUAL = "the sum of messages that were never shown"


@dataclass(slots=True)
class SdkMeter:
    """The `RunMeter` of a run without a gateway; the channel enforces the limits."""

    plan: RunPlan
    channel: Channel
    process: CliProcess
    _after: Totals | None = None
    _shown: set[MessageId] = field(default_factory=set)
    _reported: list[MeteredMessage] = field(default_factory=list)
    _costs: CliCosts = field(init=False)
    _drift: int = 0

    def __post_init__(self) -> None:
        self._costs = CliCosts(lambda: self.process.usage_baseline)

    def observe(self, message: Message) -> None:
        match message:
            case StreamEvent(event={"type": "message_start", "message": dict(started)}):
                if is_message_id(str(started.get("id"))):
                    self._open(started)
            case ResultMessage(model_usage=totals):
                self._after = self._after if totals is None else _totals(totals)
                self._costs.observe(message, messages=len(self.channel.messages))
            case _:
                pass

    def feed(self, message: MeteredMessage) -> Iterator[UsageFact]:
        self._shown.add(message.message_id)
        self._reported.append(message)
        seen = replace(message.as_measured(), at=self.channel.hooks.now())
        self.channel.close_message(seen)
        parent = message.parent_tool_call_id
        origin: Origin = "assistant" if parent is None else "subagent"
        yield usage_fact(
            seen,
            self.plan,
            executor_type=EXECUTOR_TYPE,
            origin=origin,
            parent_tool_call_id=parent,
        )

    def finish(self) -> Iterator[UsageFact]:
        """See the protocol: what the CLI's totals hold beyond the messages it showed."""
        before = _totals(self.process.usage_baseline)
        after = self._after or before
        left = residuals(before, after, self._reported, requested_model=self.plan.model)
        for shown in self._reported:
            requested = requested_model_of(shown, after, otherwise=self.plan.model)
            self._costs.add(shown.as_measured(), requested=requested)
        for model, (hidden, is_exact) in left.items():
            self._drift += 1
            log.error("meters.hidden_usage", model=model, hidden=hidden)
            message = MessageUsage(
                MessageId(f"residual-{identifier(model)}"),
                identifier(model),
                hidden,
                complete=True,
                output_estimated=not is_exact,
                note=RESIDUAL,
                at=self.channel.hooks.now(),
            )
            self._costs.add(message, requested=model)
            yield usage_fact(message, self.plan, executor_type=EXECUTOR_TYPE, origin="hidden")

    def summary(self) -> Meters:
        """See the protocol; drift is measured against the CLI's own totals."""
        cost = self._costs.compare(messages=len(self.channel.messages))
        return Meters(sdk=len(self._shown), gateway=0, drift=self._drift, cost=cost)

    def _open(self, started: Mapping[str, Any]) -> None:
        message_id = MessageId(str(started["id"]))
        if message_id in self._shown:
            return
        self._shown.add(message_id)
        reported = clean_usage(started.get("usage"))
        begun = MeteredMessage(
            message_id, str(started["model"]), token_usage(reported), final=False, reported=reported
        )
        hooks = self.channel.hooks
        hooks.on_start(replace(begun.as_measured(), at=hooks.now()), None)


def residuals(
    before: Totals, after: Totals, reported: list[MeteredMessage], *, requested_model: str
) -> dict[str, tuple[TokenUsage, bool]]:
    """Usage of calls that were not shown, by model, and whether it is exact.

    For a truncated message the totals hold an estimate of its output, or nothing at all. So with
    such a message only input tokens prove a hidden call.
    """
    shown: defaultdict[str, TokenUsage] = defaultdict(TokenUsage)
    cut: set[str] = set()
    for message in reported:
        model = requested_model_of(message, after, otherwise=requested_model)
        shown[model] = _combined(shown[model], message.usage, sign=1)
        for advisor, usage in advisor_usage(message.reported):
            shown[advisor] = _combined(shown[advisor], usage, sign=1)
        if not message.final:
            cut.add(model)
    found: dict[str, tuple[TokenUsage, bool]] = {}
    for model, total in after.items():
        own = _combined(total, before.get(model, TokenUsage()), sign=-1)
        hidden = _combined(own, shown[model], sign=-1)
        is_exact = model not in cut
        if hidden.prompt_tokens > 0 or (is_exact and hidden.total_tokens + hidden.web_search_requests > 0):
            found[model] = (_without_negatives(hidden), is_exact)
    return found


def requested_model_of(message: MeteredMessage, after: Totals, *, otherwise: str) -> str:
    """The totals name the requested model, a message the one that served it."""
    return message.model if message.model in after else otherwise


def advisor_usage(reported: Reported) -> Iterator[tuple[str, TokenUsage]]:
    """Models and tokens of the advisor's calls: the totals name them, and they are part of the message."""
    for each in list_of(reported.get("iterations")):
        model = model_of_iteration(each)
        if model is not None and object_of(each).get("type") == ADVISOR:
            yield model, token_usage(each)


def _combined(one: TokenUsage, other: TokenUsage, *, sign: int) -> TokenUsage:
    names = [each.name for each in fields(TokenUsage)]
    return TokenUsage(**{name: getattr(one, name) + sign * getattr(other, name) for name in names})


def _without_negatives(usage: TokenUsage) -> TokenUsage:
    return TokenUsage(**{each.name: max(0, getattr(usage, each.name)) for each in fields(TokenUsage)})


def _totals(raw: Mapping[str, Any]) -> Totals:
    return {model: _usage(counts) for model, counts in raw.items()}


def _usage(counts: Mapping[str, Any]) -> TokenUsage:
    return token_usage(
        clean_usage(
            {
                "input_tokens": counts.get("inputTokens"),
                "output_tokens": counts.get("outputTokens"),
                "cache_read_input_tokens": counts.get("cacheReadInputTokens"),
                "cache_creation_input_tokens": counts.get("cacheCreationInputTokens"),
                "cache_creation": {
                    "ephemeral_1h_input_tokens": counts.get("cacheCreationEphemeral1hInputTokens"),
                },
                "server_tool_use": {"web_search_requests": counts.get("webSearchRequests")},
            }
        )
    )
