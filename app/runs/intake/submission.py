"""RunSubmission: stores a planned run, and executes it here if there is a place and it need not wait."""

from app.executors.port import RunPlan
from app.platform.concurrency.offload import SMALL_BYTES
from app.platform.metrics.runs import RunMetrics
from app.runs.acceptance import RunAcceptance
from app.runs.commands.service import RunCommands
from app.runs.dispatch.port import Dispatcher
from app.runs.records import RunRecord
from app.runs.requests.posted import PostedRun
from app.runs.supervisor import RunSupervisor


class RunSubmission:
    """The step after which a run exists, whatever becomes of the request that posted it."""

    def __init__(
        self,
        acceptance: RunAcceptance,
        dispatcher: Dispatcher,
        supervisor: RunSupervisor,
        *,
        commands: RunCommands,
        metrics: RunMetrics | None = None,
    ) -> None:
        self._acceptance = acceptance
        self._dispatcher = dispatcher
        self._supervisor = supervisor
        self._commands = commands
        self._metrics = metrics or RunMetrics()

    async def submit(self, posted: PostedRun, plan: RunPlan) -> RunRecord | None:
        """The stored run; None if its id is taken. Raises what `RunAcceptance.accept` raises."""
        # A large request may have to wait until it is stored: not with a place that others could use.
        with self._dispatcher.claim_place(wanted=posted.request.size <= SMALL_BYTES) as claim:
            accepted = await self._acceptance.accept(posted, plan, has_place=claim.has_place)
            if accepted is None:
                return None
            if accepted.record.status == "running":
                claim.used_by = posted.run
                self._metrics.run_started(waited_s=0)
                self._supervisor.start(accepted.plan, posted.request)
        if accepted.to_cancel:
            await self._commands.deliver_cancels(accepted.to_cancel)
        return accepted.record
