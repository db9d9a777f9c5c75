"""CliSessionStore: what a CLI process writes of its transcript."""

from typing import Any, cast
from uuid import UUID

from claude_agent_sdk import SessionKey, SessionStoreEntry

from app.conversations.records import Transcript, TranscriptEntry, TranscriptState
from app.conversations.transcript_store import TranscriptStore
from app.ids import RunKey


class CliSessionStore:
    """The SDK's session store of one CLI process: it only writes, and only for the run that is attached.

    The SDK names projects by directories, and every process has its own directory: here the project is the
    account. The earlier transcript is already in the CLI's directory. The CLI may have been started before
    its conversation was known, with a session id of its own.

    It does not inherit from the SDK's protocol: the SDK checks which methods exist.
    """

    def __init__(self, store: TranscriptStore, cli_session: UUID) -> None:
        self._store = store
        self._cli_session = str(cli_session)
        self._attached: tuple[Transcript, RunKey, int] | None = None
        self.state = TranscriptState()
        """The transcript's state if nothing else has written to it."""
        self.unexpected = False
        """Whether the CLI wrote a message while no run was attached."""

    def attach(self, transcript: Transcript, run: RunKey, attempt: int, *, state: TranscriptState) -> None:
        """Append to this transcript, for this attempt of a run; `state` is the transcript's state now."""
        self._attached, self.state = (transcript, run, attempt), state

    def detach(self) -> None:
        """Append nothing until the next run."""
        self._attached = None

    def stored(self, line: dict[str, Any]) -> dict[str, Any]:
        """A line of the CLI as it is stored: under the conversation's session id."""
        if self._attached is None or line.get("sessionId") != self._cli_session:
            return line
        return {**line, "sessionId": self._attached[0].session_id}

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        lines = [cast("dict[str, Any]", entry) for entry in entries]
        if self._attached is None:
            self.unexpected |= any("uuid" in line for line in lines)
            return
        transcript, run, attempt = self._attached
        new = [TranscriptEntry(self.stored(line), run.run_id, attempt) for line in lines]
        subpath = key.get("subpath") or ""
        added = await self._store.add(transcript._replace(subpath=subpath), new)
        if not subpath:
            self.state = self.state.plus(added)

    async def load(self, key: SessionKey) -> None:  # noqa: ARG002 - the SDK's signature
        """Return nothing: see the class."""
        return
