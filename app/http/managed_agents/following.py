"""Following a session: what happens from now on, run after run."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime

from app.bootstrap.services import Services
from app.events import Done
from app.http.managed_agents.encoder import SessionEncoder, frame
from app.http.managed_agents.ids import event_id
from app.http.managed_agents.mapper import Event
from app.http.managed_agents.usage import usage_events
from app.http.response_model import utc_text
from app.http.streaming.sse import split_batch
from app.ids import RunId, RunKey
from app.requests.principal import Principal
from app.runs.commands.service import RunNotFound
from app.runs.conversations.service import ConversationNotFound
from app.runs.deletion.service import RunDeleted
from app.runs.managed.records import ManagedSession
from app.runs.records import UNFINISHED


@dataclass(slots=True)
class FollowedSession:
    """The stream of one client: it ends when the session is deleted."""

    services: Services
    caller: Principal
    session: ManagedSession
    encoder: SessionEncoder
    after: int
    """The last turn whose runs are over, or are followed from `began` on."""
    began: dict[RunId, int]
    """The runs that are active, oldest first, and what has happened of them."""

    @classmethod
    async def open(
        cls, services: Services, caller: Principal, session: ManagedSession, encoder: SessionEncoder
    ) -> "FollowedSession":
        """Follow a session from now on."""
        followed = cls(services, caller, session, encoder, session.conversation.turns, {})
        for turn in session.turns:
            if turn.status in UNFINISHED:
                entries = await services.runs.events(followed._key(turn.run_id))
                followed.began[turn.run_id] = entries[-1].position if entries else 0
        return followed

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The frames of its events."""
        yield self.encoder.preamble
        for run_id, position in self.began.items():
            async with aclosing(self._run(run_id, after=position)) as frames:
                async for chunk in frames:
                    yield chunk
        managed, session = self.services.managed, self.session
        account_id = session.conversation.account_id
        while True:
            turns = await managed.turns.wait(account_id, session.id, after=self.after)
            if turns is None:
                break
            for turn in await managed.turns_after(session, self.after):
                async with aclosing(self._run(turn.run_id, after=0)) as frames:
                    async for chunk in frames:
                        yield chunk
                self.after = turn.turn
            self.after = max(self.after, turns)
        at = utc_text(datetime.now(UTC))
        yield frame({"type": "session.deleted", "id": event_id(session.id, "deleted"), "processed_at": at})

    async def _run(self, run_id: RunId, *, after: int) -> AsyncGenerator[bytes, None]:
        """The frames of a run's events after a position; none of one that was deleted."""
        run, runs = self._key(run_id), self.services.runs
        questions = await self.services.managed.questions(run.account_id, [run_id])
        self.encoder.turn_to(run_id, questions.get(run_id, ""))
        try:
            async with aclosing(runs.follow(run)) as batches:
                async for batch in batches:
                    for part in split_batch(batch):
                        if isinstance(part[-1].event, Done):
                            self.encoder.add_usage(await self._usage(run_id))
                        self.encoder.skip([each for each in part if each.position <= after])
                        if chunk := self.encoder.encode([each for each in part if each.position > after]):
                            yield chunk
        except (RunNotFound, RunDeleted, ConversationNotFound):
            return

    async def _usage(self, run_id: RunId) -> list[Event]:
        session = await self.services.managed.settled(self.caller, self.session.id)
        has_cost = self.caller.may("receipts:read")
        receipts = await self.services.billing.of_run(self._key(run_id))
        return usage_events(session, run_id, receipts, has_cost=has_cost)

    def _key(self, run_id: RunId) -> RunKey:
        return RunKey(self.session.conversation.account_id, run_id)
