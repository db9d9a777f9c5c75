"""A run's part in a conversation: what the CLI goes on with, and what is kept of it."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions
from structlog.testing import capture_logs

from app.conversations.records import Transcript, TranscriptEntry, TranscriptState
from app.conversations.transcript_store import TranscriptStore
from app.errors import Unavailable
from app.executors.api_format.prompt import RESUME_PROMPT
from app.executors.claude_agent import sdk_session
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.messages_api.transcript import RunTranscript
from app.executors.port import ExecutionFailed, RunPlan
from app.platform.db import DatabaseUnavailable
from app.platform.objects.storage import ContentsUnavailable
from app.requests.messages import Message
from tests.factories import a_conversation, a_plan
from tests.unit.executors.claude_agent.an_executor import NO_DATABASE


class Store(TranscriptStore):
    """Keeps lines in memory; away as often as it is told, for ever if that is negative."""

    def __init__(self, *entries: TranscriptEntry, away: int = 0) -> None:
        super().__init__(NO_DATABASE, retry_s=0, save_s=0)
        self.kept = list(entries)
        self.away = away
        self.error: Unavailable = DatabaseUnavailable()

    async def read(
        self,
        transcript: Transcript,  # noqa: ARG002
    ) -> tuple[list[TranscriptEntry], TranscriptState]:
        return self.kept, TranscriptState(len(self.kept))

    async def state(self, transcript: Transcript) -> TranscriptState:  # noqa: ARG002
        return TranscriptState(len(self.kept))

    async def add(self, transcript: Transcript, entries: Sequence[TranscriptEntry]) -> TranscriptState:  # noqa: ARG002
        if self.away:
            self.away -= 1
            raise self.error
        self.kept += entries
        return TranscriptState(len(entries))


def line(role: str, text: str, uuid: str) -> dict[str, Any]:
    message = {"role": role, "content": [{"type": "text", "text": text}]}
    when = "2026-11-22T09:00:00.000Z"
    return {"type": role, "uuid": uuid, "parentUuid": None, "timestamp": when, "message": message}


def earlier(run_id: str = "r0") -> list[TranscriptEntry]:
    return [
        TranscriptEntry(line("user", "one", "u1"), run_id),
        TranscriptEntry(line("assistant", "two", "a1"), run_id),
    ]


async def a_turn(
    plan: RunPlan, messages: Sequence[Message], *entries: TranscriptEntry, away: int = 0
) -> tuple[sdk_session.ConversationTurn, Store]:
    store = Store(*entries, away=away)
    plan = replace(plan, conversation=a_conversation(plan.run.account_id, "k"))
    turn = await sdk_session.ConversationTurns(store).load(plan, messages)
    assert turn is not None
    return turn, store


def user_messages(text: str) -> list[Message]:
    return [Message(role="user", content=text)]


async def test_a_new_conversation_begins_with_the_question_and_writes_nothing_before(tmp_path: Path) -> None:
    plan = a_plan()
    directory, options = RunDirectory(tmp_path), ClaudeAgentOptions()

    turn, store = await a_turn(plan, user_messages("hello"))
    session, prompt = sdk_session.SdkSession(store, turn), turn.prompt
    session.write_transcript(directory)
    session.configure(options, directory, is_stored=True)

    assert prompt.content == "hello"
    assert not directory.transcripts.exists()
    assert (options.resume, options.session_store_flush) == (None, "eager")
    assert options.session_id is not None
    directory.remove()


async def test_one_that_goes_on_is_resumed_on_its_lines(tmp_path: Path) -> None:
    plan = a_plan()
    directory, options = RunDirectory(tmp_path), ClaudeAgentOptions()

    turn, store = await a_turn(plan, user_messages("three"), *earlier())
    session, prompt = sdk_session.SdkSession(store, turn), turn.prompt
    session.write_transcript(directory)
    session.configure(options, directory, is_stored=True)

    # What was written is not kept in memory as well, as long as the process waits for further turns.
    assert session.turn is not None
    assert (session.turn.entries, session.turn.prompt.content, session._entries) == ((), "", ())
    (path,) = directory.transcripts.iterdir()
    assert [json.loads(text)["uuid"] for text in path.read_text().splitlines()] == ["u1", "a1"]
    assert (prompt.content, path.stem) == ("three", options.resume)
    assert options.env["CLAUDE_CONFIG_DIR"] == str(directory.config)
    directory.remove()


async def test_an_attempt_that_asked_already_goes_on_and_does_not_ask_again() -> None:
    plan = a_plan()
    turn, _ = await a_turn(plan, user_messages("one"), *earlier(str(plan.run.run_id)))

    assert turn.prompt.content == RESUME_PROMPT


async def test_a_history_that_contradicts_the_conversation_ends_the_run() -> None:
    plan = a_plan()
    messages = [
        *user_messages("something else"),
        Message(role="assistant", content="no"),
        *user_messages("three"),
    ]

    with pytest.raises(ExecutionFailed) as failed:
        await a_turn(plan, messages, *earlier())

    assert failed.value.outcome.error == "invalid_request"


@pytest.mark.parametrize("case", ["database", "objects", "stopping"])
async def test_what_the_sdk_could_not_store_is_stored_from_the_file(tmp_path: Path, case: str) -> None:
    """It waits for the database for as long as it is away, unless the server stops."""
    plan = a_plan()
    turn, store = await a_turn(plan, user_messages("hello"), away=99 if case == "database" else -1)
    session, directory = sdk_session.SdkSession(store, turn), RunDirectory(tmp_path)
    if case == "objects":
        store.error = ContentsUnavailable()
    if case == "stopping":
        session.closing.set()
    options = ClaudeAgentOptions()
    session.configure(options, directory, is_stored=True)
    directory.transcripts.mkdir(parents=True)
    lines = [line("user", "hello", "u1"), {"type": "summary"}, line("assistant", "hi", "a1")]
    text = "".join(f"{json.dumps(each)}\n" for each in lines) + '{"type": "assist'
    (directory.transcripts / f"{options.session_id}.jsonl").write_text(text)

    with capture_logs() as logs:
        await session.save_missed_lines(directory)

    found = [(entry.line["uuid"], entry.run_id) for entry in store.kept]
    assert found == ([("u1", "r1"), ("a1", "r1")] if case == "database" else [])
    assert (logs[-1]["event"] == "transcript.lines_lost") == (case != "database")
    directory.remove()


@pytest.mark.parametrize("case", ["database", "objects", "stopping"])
async def test_a_run_of_the_messages_api_waits_for_the_same(case: str) -> None:
    plan = a_plan()
    store = Store(away=99 if case == "database" else -1)
    closing = asyncio.Event()
    if case == "objects":
        store.error = ContentsUnavailable()
    if case == "stopping":
        closing.set()
    transcript = RunTranscript(store, replace(plan, conversation=a_conversation(plan.run.account_id, "k")))

    await transcript.load(user_messages("hello"))
    with capture_logs() as logs:
        await transcript.close(closing)

    assert len(store.kept) == (case == "database")
    assert ("transcript.lines_lost" in [entry["event"] for entry in logs]) == (case != "database")


async def test_a_process_goes_on_only_with_the_conversation_that_it_knows() -> None:
    turn, store = await a_turn(a_plan(), user_messages("three"), *earlier())
    session, turns = sdk_session.SdkSession(store, turn), sdk_session.ConversationTurns(store)
    same = replace(a_plan(), conversation=turn.conversation)
    # Its conversation was deleted, and created with its key.
    again = replace(same, conversation=a_conversation(turn.conversation.account_id, "k"))

    found = [await turns.load_next(plan, user_messages("four"), session) for plan in (same, again)]
    # Another process has added a turn.
    store.kept += earlier()
    found.append(await turns.load_next(same, user_messages("four"), session))

    assert [None if each is None else each.prompt.content for each in found] == ["four", None, None]
