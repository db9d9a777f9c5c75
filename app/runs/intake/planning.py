"""RunPlanning: decides about a posted run whether it is accepted and what it does, before it is stored."""

from dataclasses import replace

from app.conversations.branching.records import After
from app.executors.port import RunPlan
from app.platform.telemetry.service import Telemetry
from app.runs.conversations.posted_history import PostedHistories
from app.runs.intake.readiness import IntakeReadiness
from app.runs.planner import RunPlanner
from app.runs.requests.posted import PostedRun
from app.runs.requests.repeated import RepeatedRequests
from app.runs.requests.schemas import SchemaPreparation


class RunPlanning:
    """Finds what prevents a run, in an order that clients rely on."""

    def __init__(
        self,
        planner: RunPlanner,
        *,
        intake: IntakeReadiness,
        repeated: RepeatedRequests,
        schemas: SchemaPreparation,
        histories: PostedHistories,
        telemetry: Telemetry,
    ) -> None:
        self._planner = planner
        self._intake = intake
        self._repeated = repeated
        self._schemas = schemas
        self._histories = histories
        self._telemetry = telemetry

    async def plan(self, posted: PostedRun) -> tuple[PostedRun, RunPlan]:
        """The run with all its messages, and its plan."""
        if not posted.request.messages:
            self._intake.require_open()
            posted = await self._repeated.complete(posted)
        caller, request, origin = posted.caller, posted.request, posted.origin
        plan = self._planner.plan(
            posted.run, request, api_key_id=caller.api_key_id, request_id=posted.request_id
        )
        self._intake.require_open()
        schemas = await self._schemas.prepare(request, account_id=caller.account_id, known=origin.schemas)
        if plan.spec.native_tools:
            await self._intake.require_sandbox()
        if not isinstance(origin.place, After):
            await self._histories.check(caller, request, origin.place)
        trace = self._telemetry.context_of(posted.run, posted.caller_trace)
        return posted, replace(plan, schemas=schemas, trace=trace)
