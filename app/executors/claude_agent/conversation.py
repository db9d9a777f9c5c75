"""A run's part in a conversation: what it goes on with, and where what it says is kept.

The transcript is laid out in the run's own folder, where the CLI looks for it. The SDK could do so
itself, but in the machine's temporary folder, where a killed server would leave it behind.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import structlog
from claude_agent_sdk import ClaudeAgentOptions, SessionStore

from app.conversations.history_merge import HistoryConflict, new_messages
from app.conversations.records import Conversation
from app.conversations.sdk_store import PostgresSessionStore, RunSessionStore
from app.conversations.transcript import TranscriptEntry, has_question_of, has_user_entries, messages_of
from app.errors import Unavailable
from app.executors.claude_agent.process.cli_process import UserContent
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.prompt import system_prompt, user_content
from app.executors.claude_agent.tools.names import tool_id_of
from app.executors.port import ExecutionFailed, RunContext
from app.ids import RunKey
from app.requests import Message

log = structlog.get_logger(__name__)

GO_ON = (
    "The server that carried you was restarted. Go on where you left off; before you repeat a tool "
    "call, consider that it may have taken effect."
)
"""What a run hears that is continued by another process and had put its question already."""

_CATCH_UP_S = 30.0
_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class InitialPrompt:
    """How a run begins."""

    system_prompt: str
    content: UserContent

    @classmethod
    def of(cls, context: RunContext, messages: Sequence[Message], *, record: bool = False) -> Self:
        """Say these messages; `record`: the agent has been given a record of earlier turns before."""
        prompt = system_prompt(context.spec.system_prompt, messages, record=record)
        return cls(prompt, user_content(messages))


class SdkSession:
    """A session of the SDK, kept in the store."""

    def __init__(self, store: PostgresSessionStore, session: Conversation, run: RunKey) -> None:
        self._store = store
        self._session = session
        self._run = run
        self._entries: Sequence[TranscriptEntry] = ()

    async def open(self, context: RunContext, messages: Sequence[Message]) -> InitialPrompt:
        """Read what was said so far, and leave out of the messages what that holds already.

        Raises `ExecutionFailed` for a history that contradicts it.
        """
        self._entries = await self._store.entries(self._session.transcript)
        said = messages_of(self._entries, tool_id_of=tool_id_of)
        try:
            new = new_messages(messages, said) if has_user_entries(self._entries) else messages
        except HistoryConflict as error:
            raise ExecutionFailed("invalid_request") from error
        opening = InitialPrompt.of(context, new, record=any(message.at is None for message in said))
        if has_question_of(self._entries, self._run.run_id):
            return InitialPrompt(opening.system_prompt, GO_ON)
        return opening

    def lay_out(self, directory: RunDirectory) -> None:
        """Write the transcript where the CLI will look for it."""
        if has_user_entries(self._entries):
            path = self._path(directory)
            path.parent.mkdir(parents=True)
            path.write_text("".join(f"{json.dumps(entry.line)}\n" for entry in self._entries), "utf-8")

    def take_part(self, options: ClaudeAgentOptions, directory: RunDirectory) -> None:
        """Let the CLI go on with the session, and the SDK keep what is said."""
        session_id = str(self._session.session_id)
        if has_user_entries(self._entries):
            options.resume = session_id
        else:
            options.session_id = session_id
        options.session_store = cast("SessionStore", RunSessionStore(self._store, self._run))
        # What was said must be there when the server is killed.
        options.session_store_flush = "eager"
        # The SDK looks here for what the CLI writes; the CLI itself gets it from its launcher.
        options.env["CLAUDE_CONFIG_DIR"] = str(directory.seen.config)

    async def catch_up(self, directory: RunDirectory) -> None:
        """Keep what the SDK could not: everything the CLI wrote. Adds nothing twice."""
        lines = await asyncio.to_thread(self._written, directory)
        said = [TranscriptEntry(line, self._run.run_id) for line in lines if "uuid" in line]
        try:
            async with asyncio.timeout(_CATCH_UP_S):
                while not await self._kept(said):
                    await asyncio.sleep(_RETRY_S)
        except TimeoutError:
            log.error("a conversation lost what a run said", run_id=self._run.run_id)  # noqa: TRY400

    async def _kept(self, said: Sequence[TranscriptEntry]) -> bool:
        try:
            await self._store.add(self._session.transcript, said)
        except Unavailable as error:
            log.warning("a conversation cannot be kept yet", reason=error.detail)
            return False
        return True

    def _written(self, directory: RunDirectory) -> list[dict[str, Any]]:
        path = self._path(directory)
        # A line that was being written when the CLI was killed has no end.
        lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def _path(self, directory: RunDirectory) -> Path:
        return directory.transcripts / f"{self._session.session_id}.jsonl"
