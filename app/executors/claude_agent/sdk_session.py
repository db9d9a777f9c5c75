"""SdkSession: resumes a conversation in a run's CLI and stores what the run adds to it.

The transcript is written to the run's own directory, where the CLI looks for it. The SDK could do so
itself, but in the machine's temporary directory, where a killed server would leave it behind.
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
from app.conversations.records import Conversation, TranscriptEntry
from app.conversations.sdk_store import PostgresSessionStore, RunSessionStore
from app.conversations.sdk_transcript import has_question_of, has_user_entries, messages_of
from app.errors import Unavailable
from app.executors.claude_agent.process.cli_process import UserContent
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.prompt import system_prompt, user_content
from app.executors.claude_agent.tools.names import tool_id_of
from app.executors.port import ExecutionFailed, RunPlan
from app.ids import RunKey
from app.requests import Message

log = structlog.get_logger(__name__)

RESUME_PROMPT = (
    "The server that ran you was restarted. Continue where you left off; before you repeat a tool "
    "call, consider that it may have taken effect."
)
"""The prompt of a run that another process resumes, if the agent has got the run's messages before."""

_SAVE_TIMEOUT_S = 30.0
_RETRY_S = 1.0


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


class SdkSession:
    """One run's use of a stored conversation."""

    def __init__(self, store: PostgresSessionStore, conversation: Conversation, run: RunKey) -> None:
        self._store = store
        self._conversation = conversation
        self._run = run
        self._entries: Sequence[TranscriptEntry] = ()

    async def load(self, plan: RunPlan, messages: Sequence[Message]) -> InitialPrompt:
        """Read the transcript, and leave out the messages that it contains already.

        Raises `ExecutionFailed` for messages that contradict it.
        """
        self._entries = await self._store.entries(self._conversation.transcript)
        stored = messages_of(self._entries, tool_id_of=tool_id_of)
        try:
            new = new_messages(messages, stored) if has_user_entries(self._entries) else messages
        except HistoryConflict as error:
            raise ExecutionFailed("invalid_request") from error
        prompt = InitialPrompt.of(plan, new, record=any(message.at is None for message in stored))
        if has_question_of(self._entries, self._run.run_id):
            return InitialPrompt(prompt.system_prompt, RESUME_PROMPT)
        return prompt

    def write_transcript(self, directory: RunDirectory) -> None:
        """Write the transcript where the CLI will look for it."""
        if has_user_entries(self._entries):
            path = self._path(directory)
            path.parent.mkdir(parents=True)
            path.write_text("".join(f"{json.dumps(entry.line)}\n" for entry in self._entries), "utf-8")

    def configure(self, options: ClaudeAgentOptions, directory: RunDirectory) -> None:
        """Make the CLI resume the session, and the SDK store what it adds."""
        session_id = str(self._conversation.session_id)
        if has_user_entries(self._entries):
            options.resume = session_id
        else:
            options.session_id = session_id
        options.session_store = cast("SessionStore", RunSessionStore(self._store, self._run))
        # Lines must be stored even if the server is killed.
        options.session_store_flush = "eager"
        # The SDK looks here for what the CLI writes; the CLI itself gets it from its launcher.
        options.env["CLAUDE_CONFIG_DIR"] = str(directory.cli_paths.config)

    async def save_missed_lines(self, directory: RunDirectory) -> None:
        """Store what the SDK could not: every line the CLI wrote. Adds nothing twice."""
        lines = await asyncio.to_thread(self._written_lines, directory)
        entries = [TranscriptEntry(line, self._run.run_id) for line in lines if "uuid" in line]
        try:
            async with asyncio.timeout(_SAVE_TIMEOUT_S):
                while not await self._save(entries):
                    await asyncio.sleep(_RETRY_S)
        except TimeoutError:
            log.error("transcript.lines_lost", run_id=self._run.run_id)  # noqa: TRY400

    async def _save(self, entries: Sequence[TranscriptEntry]) -> bool:
        try:
            await self._store.add(self._conversation.transcript, entries)
        except Unavailable as error:
            log.warning("transcript.save_failed", reason=error.detail)
            return False
        return True

    def _written_lines(self, directory: RunDirectory) -> list[dict[str, Any]]:
        path = self._path(directory)
        # A line that was being written when the CLI was killed has no end.
        lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def _path(self, directory: RunDirectory) -> Path:
        return directory.transcripts / f"{self._conversation.session_id}.jsonl"
