"""RunPlanning: decides about a posted run whether it is accepted and what it does, before it is stored."""

from dataclasses import dataclass, replace

from app.conversations.branching.records import After
from app.executors.port import RunPlan
from app.platform.telemetry.service import Telemetry
from app.runs.conversations.posted_history import PostedHistories
from app.runs.intake.readiness import IntakeReadiness
from app.runs.planner import RunPlanner
from app.runs.requests.posted import PostedRun
from app.runs.requests.repeated import RepeatedRequests
from app.runs.requests.schema_preparation import SchemaPreparation


@dataclass(frozen=True, slots=True)
class RunPlanning:
    """Finds what prevents a run, in an order that clients rely on."""

    planner: RunPlanner
    intake: IntakeReadiness
    repeated: RepeatedRequests
    schemas: SchemaPreparation
    histories: PostedHistories
    telemetry: Telemetry

    async def plan(self, posted: PostedRun) -> tuple[PostedRun, RunPlan]:
        """The run with all its messages and the labels of its key, and its plan."""
        if not posted.request.messages:
            self.intake.require_open()
            posted = await self.repeated.complete(posted)
        posted = replace(posted, request=posted.caller.labelled(posted.request))
        caller, request, origin = posted.caller, posted.request, posted.origin
        plan = self.planner.plan_for(caller, posted.run, request, request_id=posted.request_id)
        self.intake.require_open()
        schemas = await self.schemas.prepare(
            request, plan.spec, account_id=caller.account_id, known=origin.schemas
        )
        if plan.spec.native_tools:
            await self.intake.require_sandbox()
        if not isinstance(origin.place, After):
            await self.histories.check(caller, request, origin.place)
        trace = self.telemetry.context_of(posted.run, posted.caller_trace)
        return posted, replace(plan, schemas=schemas, trace=trace)
