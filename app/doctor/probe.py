"""One minimal model call, made like any run."""

import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

from app.billing.prices.price_list import Charge, PriceList
from app.billing.prices.quote import BilledUsage
from app.doctor.report import Check
from app.events import AiEvent, AssistantFinal, ControlEvent, MeterReport, UsageReport
from app.executors.claude_agent.executor import ClaudeAgentExecutor
from app.executors.control import RunControl
from app.executors.evidence import AddEvidence, keep_none
from app.executors.port import ExecutionFailed, RunContext, RunPlan
from app.gateway.answer_usage import MessageUsage
from app.gateway.call import CallCost, MeteringHooks
from app.graphs.spec import GraphSpec
from app.ids import AccountId, ApiKeyId, MessageId, RunId, RunKey, new_uuid
from app.models.registry import ModelRegistry
from app.platform.telemetry.run_trace import RunTrace
from app.requests.messages import Message
from app.requests.run_request import GraphRunRequest, RunLimits
from app.usage.records import Attribution, ExecutorType, Meters, UsageFact

_GRAPH = GraphSpec(
    name="doctor", description="Answers with one word.", system_prompt="Answer with the word ok."
)
_OUTPUT_TOKENS = 1_000
"""Enough for a short thought: models from Claude 5.5 on think by default."""
_TIMEOUT = timedelta(seconds=60)
_NOBODY = UUID(int=0)


@dataclass(frozen=True, slots=True)
class UnbilledMetering:
    """Prices for the gateway without charging any account."""

    prices: PriceList
    messages: dict[MessageId, MessageUsage] = field(default_factory=dict)
    """What the gateway measured."""

    def hooks_for(
        self,
        plan: RunPlan,  # noqa: ARG002
        *,
        executor_type: ExecutorType,  # noqa: ARG002
        trace: RunTrace | None = None,  # noqa: ARG002
        add_evidence: AddEvidence = keep_none,  # noqa: ARG002
    ) -> MeteringHooks:
        return MeteringHooks(
            _no_cost,
            _no_cost,
            _allow_call,
            on_start=_ignore_usage,
            on_progress=_ignore_usage,
            on_usage=self._keep,
            on_void=_ignore_usage,
        )

    def _keep(self, message: MessageUsage) -> None:
        self.messages[message.message_id] = message

    def charge(self, fact: UsageFact) -> Charge:
        return self.prices.charge(BilledUsage.of(fact), at=fact.at)


@dataclass(slots=True)
class _Seen:
    """Collects the events the probe's executor publishes."""

    facts: list[UsageFact] = field(default_factory=list)
    meters: Meters | None = None
    answered: bool = False

    async def publish(self, event: AiEvent) -> None:
        match event:
            case UsageReport(fact=fact):
                self.facts.append(fact)
            case MeterReport(meters=meters):
                self.meters = meters
            case AssistantFinal():
                self.answered = True
            case _:
                pass


async def probe(
    executor: ClaudeAgentExecutor, models: ModelRegistry, billing: UnbilledMetering
) -> list[Check]:
    """Run one turn without tools; report its cost and whether the meters agree."""
    plan = _plan(models)
    request = GraphRunRequest(graphId=_GRAPH.id, messages=[Message(role="user", content="Answer with ok.")])
    seen, began = _Seen(), time.monotonic()
    try:
        await executor.run(request, RunContext(plan, RunControl(_unpublished), seen))
    except ExecutionFailed as error:
        auth = executor.auth
        refusal = auth.refusals.get(plan.model)
        reason = "see the log" if refusal is None else f"the provider refuses this server: {refusal}"
        message = f"{plan.model}: {error.outcome.error}; {auth.outage or reason}"
        return [Check("probe", "error", message), *_meter_checks(seen.meters)]
    if not seen.answered:
        return [Check("probe", "error", f"{plan.model} did not answer"), *_meter_checks(seen.meters)]
    took = time.monotonic() - began
    return [
        _cost_check(seen.facts, billing, f"{plan.model} answered in {took:.1f} s"),
        *_meter_checks(seen.meters),
    ]


def _plan(models: ModelRegistry) -> RunPlan:
    model = models.resolve(None, None)
    options = models.options(model)
    return RunPlan(
        run=RunKey(AccountId(_NOBODY), RunId(f"doctor-{new_uuid()}")),
        attempt=0,
        spec=_GRAPH,
        model=model,
        tools=(),
        limits=RunLimits.of(max_turns=1),
        timeout=_TIMEOUT,
        attribution=Attribution(ApiKeyId(_NOBODY), _GRAPH.id, None),
        options=replace(
            options, thinking="disabled", effort=None, max_output_tokens=_OUTPUT_TOKENS, fallback=None
        ),
    )


def _cost_check(facts: list[UsageFact], billing: UnbilledMetering, what: str) -> Check:
    prompt, output = (
        sum(fact.usage.prompt_tokens for fact in facts),
        sum(fact.usage.output_tokens for fact in facts),
    )
    tokens = f"{prompt} tokens in, {output} out"
    charges = [billing.charge(fact) for fact in facts]
    if unpriced := sorted({name for charge in charges for name in charge.unpriced}):
        return Check("probe", "error", f"{what}: {tokens}, but there is no price for {', '.join(unpriced)}")
    cost = sum((charge.cost_usd for charge in charges), Decimal(0))
    return Check("probe", "ok", f"{what}: {tokens}, {cost:.10f} USD by our prices; no account is charged")


def _meter_checks(meters: Meters | None) -> list[Check]:
    if meters is None:
        return []
    if meters.gateway == 0 and meters.sdk > 0:
        message = f"SDK {meters.sdk}, no gateway, drift from the CLI's own totals {meters.drift}"
    else:
        message = f"SDK {meters.sdk}, gateway {meters.gateway}, drift {meters.drift}"
    cost_drift = Decimal(0) if meters.cost is None else meters.cost.drift_usd or Decimal(0)
    if cost_drift:
        message += f"; their costs differ by {cost_drift:f} USD"
    return [Check("meters", "error" if meters.drift or cost_drift else "ok", f"messages seen: {message}")]


async def _unpublished(_event: ControlEvent) -> None:
    """A probe has no readers."""


def _no_cost(*_usage: object) -> Decimal:
    """Nothing limits what the probe may cost but its own turns."""
    return Decimal(0)


async def _allow_call(_in_progress: CallCost) -> None:
    """The probe has no account whose credit could be checked."""


def _ignore_usage(*messages: MessageUsage | None) -> None:
    """The probe's usage is reported to the operator, not charged."""
