"""Succession: a run whose process died goes on in this one, where its graph wants that."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import structlog

from app.billing.receipts import ReceiptWriter
from app.billing.reports import BillingReports
from app.conversations.repository import find_conversation
from app.db import Database, Transaction
from app.executors.port import RunContext
from app.runs.dispatcher import RunDispatcher
from app.runs.planner import RunPlanner
from app.runs.repository import RunRecord, claim_run, stored_request
from app.runs.request_codec import RequestCodec
from app.runs.supervisor import RunSupervisor

log = structlog.get_logger(__name__)

MAX_ATTEMPTS = 3
"""A run that takes its process down with it must not take down every other one."""

_INHERIT_S = 2.0


class RunResumption:
    """Decides which runs go on, and begins their next attempt."""

    def __init__(
        self,
        database: Database,
        planner: RunPlanner,
        billing: BillingReports,
        *,
        receipts: ReceiptWriter,
        dispatcher: RunDispatcher,
        supervisor: RunSupervisor,
        codec: RequestCodec,
        process_id: UUID,
    ) -> None:
        self._database = database
        self._planner = planner
        self._billing = billing
        self._receipts = receipts
        self._dispatcher = dispatcher
        self._supervisor = supervisor
        self._codec = codec
        self._process_id = process_id

    async def claim(self, tx: Transaction, run: RunRecord) -> bool:
        """Make the run this process's, if it is to go on.

        It needs a graph that says `retry: true` and a conversation that holds what was said; nobody
        may have asked it to stop.
        """
        if run.state_key is None or run.interruption is not None or run.attempt + 1 >= MAX_ATTEMPTS:
            return False
        spec = self._planner.graphs.find(run.graph_id)
        if spec is None or not spec.retry:
            return False
        if await find_conversation(tx, run.key.account_id, run.state_key) is None:
            return False
        await claim_run(tx, run.key, process_id=self._process_id)
        return True

    async def resume(self, run: RunRecord) -> None:
        """Begin the next attempt of a claimed run; raises what speaks against it by now."""
        context = await self._planned(run)
        self._dispatcher.admit(run.key.account_id)
        self._supervisor.start(context)
        log.info("a run goes on", run_id=run.key.run_id, attempt=context.attempt)

    async def _planned(self, run: RunRecord) -> RunContext:
        async with self._database.snapshot() as reader:
            text = await stored_request(reader, run.key)
            conversation = await find_conversation(reader, run.key.account_id, run.state_key or "")
        request = await self._codec.decode(text)
        await self._receipts.inherit(run.key, within_s=_INHERIT_S)
        context = self._planner.plan(run.key, request, api_key_id=run.api_key_id, request_id=run.request_id)
        since = run.started_at or datetime.now(UTC)
        left = max(timedelta(), context.timeout - (datetime.now(UTC) - since))
        return replace(
            context,
            attempt=run.attempt + 1,
            timeout=left,
            spent=await self._billing.spent(run.key),
            conversation=None
            if conversation is None
            else replace(conversation, turns=run.turn or conversation.turns),
        )
