"""A run as chunks and as one completion."""

import json
from typing import Any

import pytest

from app.events import (
    AssistantFinal,
    Citation,
    ClientEvent,
    ClientToolCall,
    MessageDiscarded,
    PermissionResolved,
    RunError,
    TextDelta,
    ThinkingDelta,
    ToolCallResult,
    ToolCallStart,
)
from app.http.openai.answer import AnswerOptions, Received
from app.http.openai.chat.completion import WholeCompletion
from app.http.openai.chat.encoder import ChunkEncoder
from app.http.openai.notice import split_notice
from app.http.streaming.encoder import PAUSE_AFTER_S, PAUSE_BESIDE_CALLS_AFTER_S
from app.runs.events.failures import RunOutOfTime
from tests.unit.http.events import BUDGET, CALL, DONE, QUESTION, REQUEST, STARTED, entries_of

PAGE = "http://127.0.0.1:1/approvals"
OPTIONS = AnswerOptions("messages:assistant", is_object=False, has_usage=True, page=PAGE)
WAITS = ClientToolCall(tool_call_id="c", tool_name="pick", args={"n": 1}, expires_at="2026-11-21T12:00:00Z")
BEGUN = ToolCallStart(tool_call_id="c", tool_name="pick", args={"n": 1}, is_client_tool=True)


def text(delta: str, message_id: str = "m", **fields: Any) -> TextDelta:
    return TextDelta(message_id=message_id, delta=delta, **fields)


def frames(chunk: bytes) -> list[Any]:
    found = [frame.removeprefix("data: ") for frame in chunk.decode().split("\n\n") if frame]
    return [frame if frame == "[DONE]" else json.loads(frame) for frame in found]


def content(chunk: bytes) -> str:
    deltas = [choice["delta"] for frame in frames(chunk) if "choices" in frame for choice in frame["choices"]]
    return "".join(delta.get("content", "") for delta in deltas)


def streamed(*events: ClientEvent, options: AnswerOptions = OPTIONS) -> bytes:
    return ChunkEncoder("r-1", options).encode(entries_of(*events))


def whole(*events: ClientEvent, options: AnswerOptions = OPTIONS) -> dict[str, Any]:
    answer = WholeCompletion("r-1", options)
    answer.encode(entries_of(*events))
    if answer.pause_after_s is not None:
        answer.encode_pause()
    message: dict[str, Any] = answer.content["choices"][0]["message"]
    return message


def test_the_texts_of_a_run_are_one_without_those_of_its_subagents() -> None:
    events: list[ClientEvent] = [
        *(STARTED, text("one"), ThinkingDelta(message_id="n", delta="Hm."), CALL),
        *(text("hidden", "s", parent_tool_call_id="toolu_1"), text("two", "n"), DONE),
    ]

    *_, finish, usage, done = frames(streamed(*events))

    assert content(streamed(*events)) == "one\n\ntwo"
    assert whole(*events) == {
        "role": "assistant",
        "content": "one\n\ntwo",
        "refusal": None,
        "reasoning_content": "Hm.",
    }
    assert finish["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert usage["usage"] == {
        "prompt_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "completion_tokens": 5,
        "completion_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }
    assert done == "[DONE]"


@pytest.mark.parametrize(
    ("again", "shown"),
    [
        (["Hel", "lo."], "Hello."),
        (["He", "y"], "Hel\n\nHey"),
        (["He"], "Hel\n\nHe"),
    ],
)
def test_a_discarded_text_is_not_sent_twice_and_the_whole_answer_is_without_it(
    again: list[str], shown: str
) -> None:
    later = [text(each, "n") for each in again]
    events: list[ClientEvent] = [STARTED, text("Hel"), MessageDiscarded(message_id="m"), *later, DONE]

    assert content(streamed(*events)) == shown
    assert whole(*events)["content"] == "".join(again)


def test_pages_that_are_cited_are_annotations() -> None:
    cited = Citation(message_id="m", url="https://a/", title="A", cited_text="It snows.")
    events: list[ClientEvent] = [STARTED, text("\nSnow."), cited, cited, text(" Rain."), cited, DONE]

    places = [
        {"title": "A", "url": "https://a/", "start_index": start, "end_index": end}
        for start, end in ((0, 5), (5, 11))
    ]
    annotations = [{"type": "url_citation", "url_citation": each} for each in places]
    assert whole(*events)["annotations"] == annotations
    deltas = [frame["choices"][0]["delta"] for frame in frames(streamed(*events))[:-3]]
    assert [delta["annotations"] for delta in deltas if "annotations" in delta] == [annotations]
    stripped = whole(STARTED, text("Snow. "), cited, DONE)
    assert (stripped["content"], stripped["annotations"]) == ("Snow.", annotations[:1])


def test_an_object_is_the_only_text() -> None:
    events: list[ClientEvent] = [
        STARTED,
        text("Sure"),
        AssistantFinal(content="", structured_output={"a": "ü"}),
        DONE,
    ]
    options = AnswerOptions("messages:assistant", is_object=True, has_usage=False, page=PAGE)

    assert json.loads(content(streamed(*events, options=options))) == {"a": "ü"}
    assert json.loads(whole(*events, options=options)["content"]) == {"a": "ü"}


def test_an_answer_ends_once_the_client_has_every_call() -> None:
    encoder = ChunkEncoder("r-1", OPTIONS)
    pauses = []
    for entry in entries_of(STARTED, BEGUN, BEGUN.model_copy(update={"tool_call_id": "d"}), WAITS):
        encoder.encode([entry])
        pauses.append(encoder.pause_after_s)

    encoder.encode(
        entries_of(STARTED, BEGUN, BEGUN, WAITS, WAITS.model_copy(update={"tool_call_id": "d"}))[4:]
    )

    assert pauses == [None, None, None, PAUSE_BESIDE_CALLS_AFTER_S]
    assert encoder.pause_after_s == PAUSE_AFTER_S


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        (REQUEST, "the tool office__send_mail needs approval"),
        (BUDGET, "the budget of this run is used up"),
        (QUESTION, "the agent asks a question"),
    ],
)
def test_what_waits_for_a_person_ends_the_answer_with_a_link(request_: Any, what: str) -> None:
    encoder = ChunkEncoder("r-1", OPTIONS)
    chunk = encoder.encode(entries_of(STARTED, text("one"), CALL, request_))
    pause = encoder.pause_after_s
    said = content(chunk + encoder.encode_pause())

    assert pause == PAUSE_AFTER_S
    assert (
        said == f"one\n\n[Waiting for a person: {what}. {PAGE}?runId=r-1#4 Then send any message to go on.]"
    )
    assert split_notice(said)[1] == ("r-1", 4)
    assert whole(STARTED, text("one"), CALL, request_)["content"] == said


def test_a_response_that_goes_on_has_what_the_client_lacks() -> None:
    resolved = PermissionResolved(request_id=REQUEST.request_id, decision="allow", reason="decided")
    entries = entries_of(STARTED, text("one"), CALL, REQUEST, resolved, text("two", "n"), DONE)
    decided = Received(4, answered=frozenset({REQUEST.request_id}))
    going_on = ChunkEncoder("r-1", OPTIONS, decided)

    assert content(going_on.encode(entries[:4])) == ""
    assert going_on.pause_after_s is None
    assert content(going_on.encode(entries[4:])) == "two"
    undecided = ChunkEncoder("r-1", OPTIONS, Received(4))
    undecided.encode(entries[:4])
    assert undecided.pause_after_s == PAUSE_AFTER_S


def test_calls_of_the_client_end_the_answer_once_our_own_are_done() -> None:
    encoder = ChunkEncoder("r-1", OPTIONS)
    first = encoder.encode(entries_of(STARTED, BEGUN, CALL, WAITS))
    waits = [encoder.pause_after_s]
    result = ToolCallResult(tool_call_id="toolu_1", result=None, is_error=False)
    encoder.encode(entries_of(STARTED, BEGUN, CALL, WAITS, result)[4:])
    waits.append(encoder.pause_after_s)
    *_, finish, done = frames(encoder.encode_pause())

    assert waits == [PAUSE_BESIDE_CALLS_AFTER_S, PAUSE_AFTER_S]
    (call,) = frames(first)[-1]["choices"][0]["delta"]["tool_calls"]
    assert call == {
        "index": 0,
        "id": "r-1--c",
        "type": "function",
        "function": {"name": "pick", "arguments": '{"n":1}'},
    }
    assert (finish["choices"][0]["finish_reason"], done) == ("tool_calls", "[DONE]")
    assert whole(STARTED, BEGUN, WAITS)["tool_calls"][0]["id"] == "r-1--c"


def test_an_answer_ends_before_the_results_of_its_calls_also_later() -> None:
    asked: list[ClientEvent] = [STARTED, text("one"), BEGUN, WAITS]
    result = ToolCallResult(tool_call_id="c", result="blue", is_error=False)
    encoder = ChunkEncoder("r-1", OPTIONS)
    at_once = encoder.encode(entries_of(*asked)) + encoder.encode_pause()

    assert streamed(*asked, result, text("two", "n"), DONE) == at_once
    assert whole(*asked, result, text("two", "n"), DONE) == whole(*asked)


@pytest.mark.parametrize(
    "answer",
    [
        PermissionResolved(request_id=REQUEST.request_id, decision="allow", reason="decided"),
        PermissionResolved(request_id=REQUEST.request_id, decision="allow", reason="granted"),
    ],
)
def test_an_answer_ends_before_a_decision_of_a_person(answer: PermissionResolved) -> None:
    events: list[ClientEvent] = [STARTED, text("one"), CALL, REQUEST, answer, text("two", "n"), DONE]

    found = content(streamed(*events))

    assert (split_notice(found)[1] is None, "two" in found) == ((answer.reason == "granted"),) * 2


def test_errors_are_sent_or_raised_and_some_are_reasons_to_finish() -> None:
    ended: list[ClientEvent] = [STARTED, text("on"), RunError(error="timeout"), DONE]
    *_, error, done = frames(streamed(*ended))

    assert (error["error"]["code"], error["error"]["type"], done) == ("timeout", "server_error", "[DONE]")
    with pytest.raises(RunOutOfTime):
        whole(*ended)
    cut = frames(streamed(STARTED, text("on"), RunError(error="length"), DONE))
    assert cut[-3]["choices"][0]["finish_reason"] == "length"


def test_a_replay_is_the_same_however_it_is_divided() -> None:
    entries = entries_of(STARTED, text("one"), BEGUN, WAITS, text("two", "n"), DONE)
    at_once = ChunkEncoder("r-1", OPTIONS).encode(entries)
    divided = ChunkEncoder("r-1", OPTIONS)

    assert b"".join(divided.encode([entry]) for entry in entries) == at_once
