"""RunSubmission: stores a planned run, and executes it here if there is a place and it need not wait."""

from dataclasses import dataclass, field

from app.executors.port import RunPlan
from app.platform.concurrency.offload import SMALL_BYTES
from app.platform.metrics.runs import RunMetrics
from app.runs.acceptance import RunAcceptance
from app.runs.commands.service import RunCommands
from app.runs.dispatch.port import Dispatcher
from app.runs.records import RunRecord
from app.runs.requests.posted import PostedRun
from app.runs.supervisor import RunSupervisor


@dataclass(frozen=True, slots=True)
class RunSubmission:
    """The step after which a run exists, whatever becomes of the request that posted it."""

    acceptance: RunAcceptance
    dispatcher: Dispatcher
    supervisor: RunSupervisor
    commands: RunCommands
    metrics: RunMetrics = field(default_factory=RunMetrics)

    async def submit(self, posted: PostedRun, plan: RunPlan) -> RunRecord | None:
        """The stored run; None if its id is taken. Raises what `RunAcceptance.accept` raises."""
        # A large request may have to wait until it is stored: not with a place that others could use.
        with self.dispatcher.claim_place(wanted=posted.request.size <= SMALL_BYTES) as claim:
            accepted = await self.acceptance.accept(posted, plan, has_place=claim.has_place)
            if accepted is None:
                return None
            if accepted.record.status == "running":
                claim.used_by = posted.run
                self.metrics.run_started(waited_s=0)
                self.supervisor.start(accepted.plan, posted.request)
        if accepted.to_cancel:
            await self.commands.deliver_cancels(accepted.to_cancel)
        return accepted.record
