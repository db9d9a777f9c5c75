"""What is added to a transcript of a message that broke off."""

from typing import Any

import pytest

from app.conversations.records import TranscriptEntry
from app.events import MessageDiscarded, TextDelta
from app.executors.claude_agent.transcripts.unfinished import SeenText, unfinished_line
from app.executors.port import RunPlan
from tests.factories import a_plan, not_none

PLAN: RunPlan = a_plan()
RUN = PLAN.run.run_id


def seen(*deltas: tuple[str, str]) -> SeenText:
    text = SeenText()
    for message_id, delta in deltas:
        text.feed(TextDelta(message_id=message_id, delta=delta))
    return text


def a_line(uuid: str, kind: str = "user", run: str = RUN, **fields: Any) -> TranscriptEntry:
    line = {"type": kind, "uuid": uuid, "parentUuid": None, "sessionId": "s", "cwd": "/work", **fields}
    return TranscriptEntry(line, run)


def test_what_was_seen_of_the_last_message_follows_the_runs_last_line() -> None:
    entries = [a_line("1", run="before"), a_line("2"), a_line("3", isSidechain=True)]
    text = seen(("msg_1", "Let me see."), ("msg_2", "four"), ("msg_2", " five"))
    text.feed(TextDelta(message_id="msg_3", delta="of a subagent", parent_tool_call_id="t"))

    line = not_none(unfinished_line(entries, PLAN, text))

    assert (line["parentUuid"], line["sessionId"], line["cwd"]) == ("2", "s", "/work")
    assert (line["message"]["id"], line["message"]["stop_reason"]) == ("msg_2", None)
    assert line["message"]["content"] == [{"type": "text", "text": "four five"}]


def test_nothing_is_added_of_a_text_that_clients_were_told_to_discard() -> None:
    entries = [a_line("1")]
    text = seen(("msg_1", "four"))
    text.feed(MessageDiscarded(message_id="msg_2"))
    assert unfinished_line(entries, PLAN, text) is not None

    text.feed(MessageDiscarded(message_id="msg_1"))
    assert unfinished_line(entries, PLAN, text) is None

    text.feed(TextDelta(message_id="msg_1", delta="five"))
    line = not_none(unfinished_line(entries, PLAN, text))
    assert line["message"]["content"] == [{"type": "text", "text": "five"}]


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [a_line("1", run="before")],
        [a_line("1"), a_line("2", "assistant", message={"id": "msg_1"})],
        [TranscriptEntry({"type": "queue-operation"}, RUN)],
    ],
    ids=["no line", "none of the run", "stored by the CLI", "none to follow"],
)
def test_nothing_is_added_where_it_is_stored_or_has_no_place(entries: list[TranscriptEntry]) -> None:
    assert unfinished_line(entries, PLAN, seen(("msg_1", "four"))) is None
