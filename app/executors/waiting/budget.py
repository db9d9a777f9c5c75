"""Budget: a run's limit of dollars, which a person may raise once the run has reached it."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, Final

import structlog
from pydantic import Field, TypeAdapter, ValidationError

from app.errors import AppError, Invalid
from app.events import BudgetReached, PermissionResolved
from app.executors.waiting.calls import CallKind, Publish, Resolution, WaitingCalls
from app.executors.waiting.port import StoredCall, Waits
from app.executors.waiting.records import Decision, PermissionDecided, PermissionNotFound
from app.ids import new_uuid
from app.platform.serialization.mistakes import problem_of
from app.requests.dollars import Dollars
from app.requests.wire_models import InputModel

log = structlog.get_logger(__name__)

_PLACE: Final = "budget"
"""Instead of a tool call's id: by it the next attempt finds what the one before has asked."""


class RaisedBudget(InputModel):
    """The arguments of a decision that raises the limit."""

    max_budget_usd: Annotated[Dollars, Field(gt=0)]


class Budget:
    """Asks for a higher limit; only used on the loop that executes the run."""

    def __init__(self, publish: Publish, waits: Waits, *, timeout: timedelta) -> None:
        """`timeout` is how long the run waits for a decision."""
        self.calls = WaitingCalls(publish, timeout, BUDGET, waits)

    async def ask(self, spent: Decimal, limit: Decimal) -> Decimal | None:
        """Wait until the limit of a run that has spent as much is raised; None if it stays."""
        request_id = str(new_uuid())
        details = {"spentUsd": str(spent), "maxBudgetUsd": str(limit)}

        async def check(decision: Decision) -> None:
            require_higher(details, decision)

        try:
            resolution = await self.calls.wait(
                request_id,
                lambda expires_at: BudgetReached(request_id=request_id, expires_at=expires_at),
                check,
                tool_call_id=_PLACE,
                details=details,
            )
        except AppError as error:
            log.warning("budget.not_asked", reason=error.detail)
            return None
        return _raised_to(resolution.answer)


def require_higher(request: Mapping[str, Any], decision: Decision) -> None:
    """Raise `Invalid` for a decision about a stored request with which the run could not go on."""
    if decision.grant_by is not None:
        raise Invalid.field("decision", "must be allow or deny: each budget is raised by itself")
    if decision.decision == "deny":
        return
    try:
        raised = RaisedBudget.model_validate(decision.args or {})
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise Invalid.field(".".join(["args", *map(str, fault["loc"])]), problem_of(fault)) from error
    if raised.max_budget_usd <= Decimal(request["spentUsd"]):
        raise Invalid.field("args.maxBudgetUsd", "must be more than the run has spent")


def raised_limit(limit: Decimal | None, waits: Sequence[StoredCall]) -> Decimal | None:
    """The limit of a run with these stored calls; without a decision that its next attempt will publish."""
    raised = [
        _raised_to(BUDGET.answers.validate_python(call.answer))
        for call in waits
        if call.kind == BUDGET.name and call.resolved_by == "decided" and not call.is_parked
    ]
    return max((each for each in raised if each is not None), default=limit)


def _raised_to(decision: Decision | None) -> Decimal | None:
    if decision is None or decision.decision == "deny":
        return None
    return RaisedBudget.model_validate(decision.args).max_budget_usd


def _resolved_event(request_id: str, resolution: Resolution[Decision]) -> PermissionResolved:
    decision = resolution.answer or Decision("deny")
    return PermissionResolved(request_id=request_id, decision=decision.decision, reason=resolution.reason)


BUDGET: Final = CallKind(
    "budget",
    TypeAdapter(Decision),
    unknown=PermissionNotFound,
    answered=PermissionDecided,
    resolved_event=_resolved_event,
)
