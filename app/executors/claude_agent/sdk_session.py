"""SdkSession: resumes a conversation in a CLI and stores what its runs add to it.

The transcript is written to the process's own directory, where the CLI looks for it. The SDK could do so
itself, but in the machine's temporary directory, where a killed server would leave it behind.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import structlog
from claude_agent_sdk import ClaudeAgentOptions, SessionStore

from app.conversations.history_merge import HistoryConflict, new_messages
from app.conversations.records import Conversation, TranscriptEntry, TranscriptState
from app.conversations.sdk_store import CliSessionStore
from app.conversations.sdk_transcript import (
    has_question_of,
    has_user_entries,
    messages_of,
    resumable_lines,
)
from app.conversations.transcript_store import TranscriptStore
from app.executors.api_format.failures import concerns_attachments
from app.executors.api_format.prompt import RESUME_PROMPT
from app.executors.claude_agent.process.cli_run import UserContent
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.prompt import has_earlier_turns, system_prompt, user_content
from app.executors.claude_agent.tools.names import STRUCTURED_OUTPUT, tool_id_of
from app.executors.claude_agent.transcripts.lines import chained, message_of, open_calls
from app.executors.port import ExecutionFailed, RunPlan
from app.ids import RunKey, new_uuid
from app.platform.db import AttemptOver
from app.requests.messages import Message

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class InitialPrompt:
    """System prompt and first user message of a run."""

    system_prompt: str
    content: UserContent

    @classmethod
    def of(cls, plan: RunPlan, messages: Sequence[Message], *, record: bool = False) -> Self:
        """From these messages; `record`: the agent was given a record of earlier turns before."""
        prompt = system_prompt(plan.spec.system_prompt, messages, record=record)
        return cls(prompt, user_content(messages))


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """A run's turn in a stored conversation."""

    conversation: Conversation
    run: RunKey
    attempt: int
    prompt: InitialPrompt
    state: TranscriptState
    has_record: bool
    """Whether the transcript will hold a record of turns from before the conversation began here."""
    is_first: bool = False
    """Whether there is nothing to resume."""
    entries: Sequence[TranscriptEntry] = ()
    """The transcript, if it was read."""


class ConversationTurns:
    """Reads what the turns of stored conversations begin with."""

    def __init__(self, store: TranscriptStore) -> None:
        self._store = store

    async def load(self, plan: RunPlan, messages: Sequence[Message]) -> ConversationTurn | None:
        """Read the transcript, and leave out the messages that it contains already.

        None for a run without a conversation. Raises `ExecutionFailed` for messages that contradict it.
        """
        if (conversation := plan.conversation) is None:
            return None
        entries, state = await self._store.read(conversation.transcript)
        stored = messages_of(entries, tool_id_of=tool_id_of)
        try:
            new = new_messages(messages, stored) if has_user_entries(entries) else messages
        except HistoryConflict as error:
            raise ExecutionFailed("invalid_request") from error
        recorded = any(message.at is None for message in stored)
        prompt = InitialPrompt.of(plan, new, record=recorded)
        if has_question_of(entries, plan.run.run_id):
            prompt = InitialPrompt(prompt.system_prompt, RESUME_PROMPT)
        has_record = recorded or has_earlier_turns(new)
        return ConversationTurn(
            conversation,
            plan.run,
            plan.attempt,
            prompt,
            state,
            has_record,
            is_first=not has_user_entries(entries),
            entries=entries,
        )

    async def load_next(
        self, plan: RunPlan, messages: Sequence[Message], session: "SdkSession"
    ) -> ConversationTurn | None:
        """The next turn of a CLI that has served turns; None unless its context is what is stored.

        Reads the transcript only if the messages must be compared with it. Raises like `load`.
        """
        conversation, before, state = plan.conversation, session.turn, session.state
        if conversation is None or before is None or state is None:
            return None
        if conversation.transcript != before.conversation.transcript:
            return None
        if has_earlier_turns(messages):
            turn = await self.load(plan, messages)
            return turn if turn is not None and turn.state == state else None
        if plan.beginning is not None:
            stored = plan.beginning.transcript
        else:
            stored = await self._store.state(conversation.transcript)
        if stored != state:
            return None
        prompt = InitialPrompt.of(plan, messages, record=before.has_record)
        return ConversationTurn(conversation, plan.run, plan.attempt, prompt, state, before.has_record)


class SdkSession:
    """The session of one CLI process, which belongs to a conversation from its first turn on."""

    def __init__(
        self,
        store: TranscriptStore,
        turn: ConversationTurn | None = None,
        *,
        kept: Sequence[TranscriptEntry] = (),
    ) -> None:
        """Without a turn the process is started before its conversation is known, or its run has none.

        `kept` is what such a run has written before.
        """
        self._store = store
        self._session_id = new_uuid() if turn is None else turn.conversation.session_id
        self._writer = CliSessionStore(store, self._session_id)
        self._entries = kept
        self.closing = asyncio.Event()
        """Set when the server stops."""
        self.written: list[dict[str, Any]] = []
        """What the CLI of a run without a conversation had written when it was left."""
        self.turn: ConversationTurn | None = None
        """The last turn, without transcript and prompt: with a parked process they would stay in memory."""
        if turn is not None:
            self._entries = () if turn.is_first else turn.entries
            self.start_turn(turn)
        self._resumes = bool(self._entries)

    def start_turn(self, turn: ConversationTurn) -> None:
        """Store what the CLI adds as part of this turn."""
        self.turn = replace(turn, prompt=InitialPrompt("", ""), entries=())
        self._writer.attach(turn.conversation.transcript, turn.run, turn.attempt, state=turn.state)

    def end_turn(self) -> None:
        """Store nothing until the next turn."""
        self._writer.detach()

    @property
    def state(self) -> TranscriptState | None:
        """The transcript's state if the CLI's context is what is stored; None if it cannot be."""
        return None if self._writer.unexpected else self._writer.state

    def write_transcript(self, directory: RunDirectory) -> None:
        """Write the transcript where the CLI will look for it."""
        if self._entries:
            path = self._path(directory)
            path.parent.mkdir(parents=True)
            lines = resumable_lines(self._entries, concerns_attachments=partial(concerns_attachments, None))
            path.write_text("".join(f"{json.dumps(self._own(line))}\n" for line in lines), "utf-8")
            self._entries = ()

    def configure(self, options: ClaudeAgentOptions, directory: RunDirectory, *, is_stored: bool) -> None:
        """Make the CLI resume the session; if it `is_stored`, make the SDK store what the CLI adds."""
        if self._resumes:
            options.resume = str(self._session_id)
        else:
            options.session_id = str(self._session_id)
        if not is_stored:
            return
        options.session_store = cast("SessionStore", self._writer)
        # Lines must be stored even if the server is killed.
        options.session_store_flush = "eager"
        # The SDK looks here for what the CLI writes; the CLI itself gets it from its launcher.
        options.env["CLAUDE_CONFIG_DIR"] = str(directory.cli_paths.config)

    async def save_missed_lines(self, directory: RunDirectory) -> None:
        """Store what the SDK could not: every line the CLI wrote. Adds nothing twice.

        Of a run without a conversation they are `written`.
        """
        lines = await asyncio.to_thread(self._written_lines, directory)
        if self.turn is None:
            self.written = lines
            return
        transcript, run_id, attempt = (
            self.turn.conversation.transcript,
            self.turn.run.run_id,
            self.turn.attempt,
        )
        entries = [
            TranscriptEntry(self._writer.stored(line), run_id, attempt) for line in lines if "uuid" in line
        ]
        try:
            if not await self._store.persist(partial(self._store.add, transcript, entries), self.closing):
                log.error("transcript.lines_lost", run_id=run_id)
        except AttemptOver:
            log.warning("transcript.fenced")

    async def open_calls(self, directory: RunDirectory, message_id: str | None) -> set[str] | None:
        """The ids of the calls without a result, by what the CLI has written; None if not this message."""
        lines = await asyncio.to_thread(self._written_lines, directory)
        if message_id and all(message_of(line).get("id") != message_id for line in lines):
            return None
        return {call["id"] for call in open_calls(chained(lines)) if call["name"] != STRUCTURED_OUTPUT}

    def _written_lines(self, directory: RunDirectory) -> list[dict[str, Any]]:
        path = self._path(directory)
        # A line that was being written when the CLI was killed has no end.
        lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def _own(self, line: dict[str, Any]) -> dict[str, Any]:
        """A line as one of this session: those of a branch were copied from another one."""
        return {**line, "sessionId": str(self._session_id)} if "sessionId" in line else line

    def _path(self, directory: RunDirectory) -> Path:
        return directory.transcripts / f"{self._session_id}.jsonl"
