"""RunSession: the execution of a run, as the operator's hooks get it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from app.executors.port import RunPlan
from app.requests.outcome import GraphFinal
from app.tools.extensions.hooks import RunHooks
from runtally.tools.hooks import SessionResult
from runtally.tools.tool import HookContext


@dataclass(slots=True)
class RunSession:
    """Calls the hooks at the start and the end of an execution; at the end only after a start.

    One that has waited without a process goes on: it does not start again.
    """

    hooks: RunHooks
    plan: RunPlan
    _context: HookContext | None = field(init=False, default=None)

    async def start(self) -> None:
        self._context = _context(self.plan)
        if self.plan.parked is None:
            await self.hooks.session_start(self._context)

    async def end(self, final: GraphFinal) -> None:
        if self._context is not None:
            result = SessionResult(
                ok=final.ok, finish_reason=final.finish_reason, error=final.error, content=final.content
            )
            await self.hooks.session_end(self._context, result)


def _context(plan: RunPlan) -> HookContext:
    most = plan.limits.max_budget_usd
    return HookContext(
        run=plan.run,
        attempt=plan.attempt,
        request_id=plan.request_id,
        graph_id=plan.spec.id,
        conversation=None if plan.conversation is None else plan.conversation.state_key,
        deadline=datetime.now(UTC) + plan.timeout,
        budget_left_usd=None if most is None else max(Decimal(0), most - plan.spent.cost_usd),
    )
