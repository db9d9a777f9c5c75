"""A run as the events of a response and as the response itself."""

import json
from typing import Any

import pytest
from openai.types.responses import Response
from pydantic import ValidationError

from app.errors import Invalid
from app.events import (
    AssistantFinal,
    Citation,
    ClientEvent,
    MessageDiscarded,
    Queued,
    RunError,
    TextDelta,
    ThinkingDelta,
    ToolCallResult,
)
from app.graphs.spec import GraphSpec
from app.http.openai.answer import NOTHING, AnswerOptions, Received
from app.http.openai.responses.encoder import ResponseEncoder, WholeResponse
from app.http.openai.responses.ids import ResponseName, request_of
from app.http.openai.responses.input import ResponseRequest
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.requests.outcome import ErrorCode
from app.runs.events.codec import joined
from app.runs.planner import SystemMessageRefused
from app.streams.port import LogEntry
from tests.factories import a_record
from tests.unit.http.events import (
    ANSWERED,
    BUDGET,
    CALL,
    DONE,
    QUESTION,
    REQUEST,
    RESOLVED,
    STARTED,
    client_call,
    client_call_start,
    client_result,
    entries_of,
)

OPTIONS = AnswerOptions("messages:assistant", is_object=False, has_usage=True, page="http://h/approvals")
RECORD = a_record(RunKey(AccountId(new_uuid()), RunId("r-1")), state_key="c")


def text(delta: str, message_id: str = "m") -> TextDelta:
    return TextDelta(message_id=message_id, delta=delta)


def frames(chunk: bytes) -> list[dict[str, Any]]:
    return [json.loads(frame.partition("data: ")[2]) for frame in chunk.decode().split("\n\n") if frame]


def whole(entries: list[LogEntry], received: Received = NOTHING) -> Response:
    """What is read of a response, which their strict types accept."""
    answer = WholeResponse(RECORD, OPTIONS, received)
    answer.encode(entries)
    if answer.pause_after_s is not None and not answer.ended:
        answer.encode_pause()
    return Response.model_validate(answer.content)


def kinds(response: Response) -> list[str]:
    return [item.type for item in response.output]


RUN = entries_of(
    *(STARTED, ThinkingDelta(message_id="m", delta="Hm."), text("one"), client_call_start("a")),
    *(client_call("a"), client_result("a"), text("two", "n"), CALL, REQUEST, RESOLVED, text("three", "o")),
    *(QUESTION, ANSWERED, text("four", "p"), DONE),
)


def test_a_run_is_as_many_responses_as_it_has_waited() -> None:
    after = [0, 5, 9, 12]

    found = [whole(RUN, Received(position)) for position in after]

    assert [kinds(each) for each in found] == [
        *(["reasoning", "message", "function_call"], ["message", "mcp_approval_request"]),
        *(["message"], ["message"]),
    ]
    assert [each.id for each in found] == ["resp_r-1", "resp_r-1~5", "resp_r-1~9", "resp_r-1~12"]
    assert [each.output_text.partition("\n\n")[0] for each in found] == ["one", "two", "three", "four"]
    assert "[Waiting for a person: the agent asks a question. http://h/approvals?runId=r-1#12" in (
        found[2].output_text
    )
    assert [each.usage is None for each in found] == [True, True, True, False]
    assert request_of(found[1].output[-1].id or "") == ("r-1", "p-1")


def test_a_response_is_the_same_however_late_it_is_read_and_however_it_is_divided() -> None:
    for end in range(len(RUN)):
        live = ResponseEncoder(RECORD, OPTIONS)
        chunk = live.encode(RUN[:end])
        if live.pause_after_s is not None and not live.ended:
            chunk += live.encode_pause()
        at_once = ResponseEncoder(RECORD, OPTIONS).encode(RUN)
        assert at_once.startswith(chunk)
    divided = ResponseEncoder(RECORD, OPTIONS)
    assert b"".join(divided.encode([entry]) for entry in RUN) == at_once
    numbers = [frame["sequence_number"] for frame in frames(at_once)]
    assert numbers == list(range(len(numbers)))
    for last in numbers:
        resumed = ResponseEncoder(RECORD, OPTIONS, starting_after=last).encode(RUN)
        assert frames(resumed) == frames(at_once)[last + 1 :]


def test_a_stream_says_that_a_run_has_waited_for_its_turn() -> None:
    events = entries_of(Queued(position=2), *(STARTED, text("one"), DONE))
    live = ResponseEncoder(RECORD, OPTIONS)

    first, at_once = live.encode(events[:1]), ResponseEncoder(RECORD, OPTIONS).encode(events)

    shown = frames(at_once)
    assert at_once == first + live.encode(events[1:])
    assert len(frames(first)) == 2
    assert [(each["type"], each["response"]["status"]) for each in shown[:3]] == [
        *(("response.created", "queued"), ("response.queued", "queued")),
        ("response.in_progress", "in_progress"),
    ]
    assert [each["sequence_number"] for each in shown] == list(range(len(shown)))
    assert [each["type"] for each in shown[3:]].count("response.in_progress") == 0
    resumed = ResponseEncoder(RECORD, OPTIONS, starting_after=1).encode(events)
    assert frames(resumed) == shown[2:]


def cited(url: str, message_id: str = "m") -> Citation:
    return Citation(message_id=message_id, url=url, title=None, cited_text="It snows.")


def test_pages_that_are_cited_are_annotations_of_the_text_before() -> None:
    events = entries_of(
        *(STARTED, text("Snow."), cited("https://a/"), cited("https://b/"), cited("https://a/")),
        *(text(" Rain."), cited("https://a/"), CALL, text("More", "n"), cited("https://b/", "n"), DONE),
    )

    response = whole(events)

    (part,) = (part for item in response.output for part in getattr(item, "content", ()))
    assert [(each.title, each.start_index, each.end_index) for each in part.annotations] == [
        *(("https://a/", 0, 5), ("https://b/", 0, 5), ("https://a/", 5, 11), ("https://b/", 11, 17))
    ]
    shown = frames(ResponseEncoder(RECORD, OPTIONS).encode(events))
    added = [each for each in shown if each["type"] == "response.output_text.annotation.added"]
    assert [each["annotation_index"] for each in added] == [0, 1, 2, 3]
    assert [each["annotation"] for each in added] == [each.model_dump() for each in part.annotations]


def test_a_message_that_is_discarded_cites_nothing() -> None:
    response = whole(
        entries_of(STARTED, text("Snow."), cited("https://a/"), MessageDiscarded(message_id="m"), text("No."))
    )

    assert "https://a/" not in response.model_dump_json()


def test_a_response_of_joined_texts_is_the_same() -> None:
    entries = entries_of(*(STARTED, text("a"), text("b"), text("c"), CALL, REQUEST, text("d"), text("e")))
    for position in range(len(entries)):
        found = joined(entries, apart=position)
        assert len(found) < len(entries) or position
        assert whole(found, Received(position)) == whole(entries, Received(position))


def test_a_response_is_completed_when_the_run_ended_or_began_to_wait() -> None:
    began_s = 1_764_000_000
    entries = [each._replace(at=(began_s + each.position) * 1000 + 7) for each in RUN]

    found = [whole(entries, Received(position)).completed_at for position in (0, 5, 9, 12)]

    assert found == [began_s + position for position in (5, 9, 12, len(RUN))]
    assert whole(entries[:3]).completed_at is None


@pytest.mark.parametrize("error", ["length", "refused", "aborted", "internal"])
@pytest.mark.parametrize("is_whole", [False, True])
def test_a_message_that_an_error_cuts_off_is_incomplete(error: ErrorCode, *, is_whole: bool) -> None:
    before: list[ClientEvent] = [STARTED, ThinkingDelta(message_id="m", delta="Hm."), text("on")]
    ended = entries_of(*before, *([CALL] if is_whole else []), RunError(error=error), DONE)

    found = [(item.type, getattr(item, "status", None)) for item in whole(ended).output]
    done = [
        each["item"]["status"]
        for each in frames(ResponseEncoder(RECORD, OPTIONS).encode(ended))
        if each["type"] == "response.output_item.done"
    ]

    status = "completed" if is_whole else "incomplete"
    assert found == [("reasoning", "completed"), ("message", status)]
    assert done == ["completed", status]


def test_what_others_end_is_no_end_of_the_response() -> None:
    expired = RESOLVED.model_copy(update={"reason": "expired", "decision": "deny"})

    assert kinds(whole(entries_of(STARTED, CALL, REQUEST, expired, text("no"), DONE))) == ["message"]


def test_what_still_waits_ends_the_next_response_again() -> None:
    entries = entries_of(STARTED, CALL, REQUEST, BUDGET)

    decided = whole(entries, Received(4, answered=frozenset({"p-1"})))

    assert kinds(decided) == ["message"]
    assert "the budget of this run is used up" in decided.output_text
    assert kinds(whole(entries)) == ["mcp_approval_request", "message"]


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        *(("length", "incomplete", "max_output_tokens"), ("refused", "incomplete", "content_filter")),
        *(("aborted", "cancelled", None), ("internal", "failed", None)),
    ],
)
def test_a_run_that_does_not_succeed_says_why(error: Any, status: str, reason: str | None) -> None:
    ended = entries_of(STARTED, text("on"), RunError(error=error), DONE)
    *_, last = frames(ResponseEncoder(RECORD, OPTIONS).encode(ended))
    response = whole(ended)

    assert last["type"] == f"response.{status if reason else 'failed'}"
    assert (response.status, response.output_text) == (status, "on")
    details = response.incomplete_details
    assert (None if details is None else details.reason) == reason
    assert (response.error is not None) == (status == "failed")


def test_a_discarded_text_is_only_in_the_stream_and_an_answer_without_its_events_is_shown() -> None:
    entries = entries_of(STARTED, text("Hel"), MessageDiscarded(message_id="m"), text("Yes.", "n"), DONE)
    end = entries_of(AssistantFinal(content="Yes."), DONE)

    assert whole(entries).output_text == "Yes."
    assert whole(end).output_text == "Yes."


def test_results_of_our_own_tools_are_not_shown() -> None:
    result = ToolCallResult(tool_call_id="toolu_1", result="sent", is_error=False)

    assert kinds(whole(entries_of(STARTED, CALL, result, text("Sent."), DONE))) == ["message"]


@pytest.mark.parametrize("known", ["r-1", "resp_", "resp_a b", "resp_r~x", "resp_r~1~2", "resp_" + "r" * 129])
def test_other_ids_name_no_response(known: str) -> None:
    assert ResponseName.of(known) is None


def test_items_that_are_only_named_are_known_and_system_messages_count() -> None:
    request = ResponseRequest.model_validate(
        {
            "model": "messages:assistant",
            "instructions": "Be brief.",
            "input": [
                {"role": "developer", "content": "Be kind."},
                {"role": "user", "content": "before"},
                {"type": "item_reference", "id": "fc_r-1~3.0"},
                {"type": "computer_call", "action": {"type": "click"}, "call_id": 7},
                {"type": "function_call_output", "call_id": "r-1--a", "output": "blue"},
            ],
        }
    )

    assert [(each.role, each.text) for each in request.posted] == [
        *(("developer", "Be brief."), ("developer", "Be kind."), ("tool", "blue"))
    ]
    assert (request.previous, request.results) == (("r-1", 3), {"r-1--a": "blue"})
    spec = GraphSpec(name="assistant", description="d", system_prompt="p", allow_system_messages=False)
    with pytest.raises(Invalid, match=r"input\.4: must be the user's"):
        request.require_answerable(spec)
    asked = request.model_copy(update={"input": "hi"})
    fresh = ResponseRequest.model_validate(asked.model_dump(exclude={"tools"}))
    with pytest.raises(SystemMessageRefused, match="instructions: is not allowed"):
        fresh.require_answerable(spec)


def test_a_decision_counts_until_the_user_says_something() -> None:
    decision = {"type": "mcp_approval_response", "approval_request_id": "mcpr_r-1~0.p-1", "approve": True}
    said = {"role": "user", "content": "Go on."}

    posted = [
        ResponseRequest.model_validate({"model": "m", "input": items}).decisions
        for items in ([decision], [decision, said])
    ]

    assert [[(run, each.request_id, each.decision) for run, each in found] for found in posted] == [
        [("r-1", "p-1", "allow")],
        [],
    ]


def test_events_have_their_names() -> None:
    events: list[ClientEvent] = [STARTED, text("one"), DONE]
    chunk = ResponseEncoder(RECORD, OPTIONS).encode(entries_of(*events)).decode()

    names = [line.removeprefix("event: ") for line in chunk.splitlines() if line.startswith("event: ")]

    assert names == [frame["type"] for frame in frames(chunk.encode())]
    stopped = ResponseEncoder(RECORD, OPTIONS)
    assert [each["type"] for each in frames(stopped.encode_stopping() + stopped.encode_revoked())] == [
        "error",
        "error",
    ]


@pytest.mark.parametrize("kind", [["function"], {"a": 1}, 3, None])
def test_a_type_that_is_no_text_is_an_error_of_its_field(kind: object) -> None:
    with pytest.raises(ValidationError, match="tools"):
        ResponseRequest.model_validate({"model": "a:b", "input": "hi", "tools": [{"type": kind}]})
