"""EvidenceRecorder: keeps the evidence of one attempt of a run until it is stored."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import structlog

from app.executors.evidence import AddEvidence, RunEvidence, keep_none
from app.ids import RunKey
from app.platform.background import forever
from app.platform.db import Database, Transaction
from app.runs.events.terminal import POSITIONS_PER_ATTEMPT
from app.runs.evidence.records import NewEvidence
from app.runs.evidence.repository import insert_evidence

log = structlog.get_logger(__name__)

STORE_EVERY_S: Final = 1.0
"""What a killed process may lose."""


@dataclass(slots=True)
class EvidenceRecorder:
    """Stores every second what is new; the end of the run stores the rest."""

    database: Database
    run: RunKey
    attempt: int
    max_bytes: int
    """What an attempt has more is not kept; 0: nothing is."""
    _size: int = 0
    _count: int = 0
    _new: list[NewEvidence] = field(default_factory=list)
    _storing: asyncio.Task[None] | None = None

    @property
    def keep(self) -> AddEvidence:
        """Keeps a piece, or none of them."""
        return self._add if self.max_bytes else keep_none

    def _add(self, evidence: RunEvidence) -> None:
        if self._size > self.max_bytes:
            return
        self._size += len(evidence.content)
        if self._size > self.max_bytes:
            log.warning("run.evidence_cut_off", max_bytes=self.max_bytes)
            evidence = RunEvidence("cut_off", "{}")
        self._count += 1
        position = self.attempt * POSITIONS_PER_ATTEMPT + self._count
        self._new.append(NewEvidence(position, datetime.now(UTC), *evidence))
        if self._storing is None:
            self._storing = asyncio.create_task(forever(self._store_new, 0, name="run evidence"))

    @property
    def unstored(self) -> Sequence[NewEvidence]:
        """What is not stored yet."""
        return self._new

    async def store(self, tx: Transaction) -> None:
        """Store what is not stored yet. May be repeated if the transaction fails."""
        if self._new:
            await insert_evidence(tx, self.run, self._new)

    async def end(self) -> None:
        """Nothing is added any more; what is `unstored` has to be stored after this."""
        if self._storing is not None:
            self._storing.cancel()
            await asyncio.wait({self._storing})

    async def _store_new(self) -> None:
        await asyncio.sleep(STORE_EVERY_S)
        if new := list(self._new):
            async with self.database.write() as tx:
                await insert_evidence(tx, self.run, new)
            del self._new[: len(new)]
