"""RunVoice: the one way to say something in a run, before its end."""

import asyncio
from datetime import UTC, datetime

import structlog

from app.db import Database
from app.errors import Unavailable
from app.events import ClientEvent, ControlEvent, Interrupted
from app.executors.control import RunControl
from app.ids import RunKey
from app.runs.repository import store_interruption
from app.streams.port import EventLog

log = structlog.get_logger(__name__)


class RunEventPublisher:
    """Gives a run's events their positions one after the other, whoever speaks."""

    def __init__(self, database: Database, event_log: EventLog, run: RunKey, control: RunControl) -> None:
        self._database = database
        self._log = event_log
        self._run = run
        self._control = control
        self._turn_to_speak = asyncio.Lock()
        self._turn_to_note = asyncio.Lock()
        self._stop: dict[str, str] = {}
        control.publish = self.publish_control

    async def publish(self, event: ClientEvent) -> None:
        """Say it; raises what the event log raises."""
        async with self._turn_to_speak:
            position = await self._log.append(self._run, event)
        self._control.on_published(event, position)

    async def publish_control(self, event: ControlEvent) -> None:
        """Say it, and keep with the run how far a wish to stop it has come."""
        await self.publish(event)
        if isinstance(event, Interrupted):
            self._stop = {"kind": event.kind, "state": event.state, "at": datetime.now(UTC).isoformat()}
            try:
                # One after the other, and always the last: what is kept never falls behind what was said.
                async with self._turn_to_note, self._database.transaction() as tx:
                    await store_interruption(tx, self._run, self._stop)
            except Unavailable as error:
                log.warning("an interruption is not kept with its run", reason=error.detail)
