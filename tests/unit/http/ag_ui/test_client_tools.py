"""Calls of client tools on the wire of AG-UI."""

from app.events import ClientEvent, RunStarted, TextDelta, ToolCallStart
from app.http.ag_ui.input import AgUiInput
from app.http.ag_ui.output.encoder import PAUSE_AFTER_S, PAUSE_IN_STEP_AFTER_S
from tests.unit.http.ag_ui.test_encoder import an_encoder, parsed
from tests.unit.http.events import DONE, REQUEST, STARTED, STEP, entries_of
from tests.unit.http.events import client_call as call
from tests.unit.http.events import client_call_start as start
from tests.unit.http.events import client_result as result

OURS = ToolCallStart(tool_call_id="ours", tool_name="core__clock", args={})


CALLS: list[ClientEvent] = [
    *(STARTED, TextDelta(message_id="m", delta="Look."), start("a"), OURS, start("b"), STEP),
    *(call("a"), result("ours", {}), call("b")),
]


def kinds(stream: bytes) -> list[str]:
    events = parsed(stream)
    return [" ".join([each["type"], each.get("toolCallId", "")]).strip() for each in events]


def test_the_run_completes_with_the_calls_that_the_client_has_to_execute() -> None:
    encoder, earlier = an_encoder(names_pending=True), an_encoder()
    stream = encoder.encode(entries_of(*CALLS)) + encoder.encode_pause()
    earlier.encode(entries_of(*CALLS))

    events = parsed(stream)
    starts = [event for event in events if event["type"] == "TOOL_CALL_START"]
    assert [(each["toolCallId"], each["toolCallName"], each["parentMessageId"]) for each in starts] == [
        *(("ours", "core__clock", "m"), ("a", "pick", "m"), ("b", "pick", "m"))
    ]
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["a", "b"]}
    # Clients before AG-UI 1.0 reject a field that they do not know, and derive the calls themselves.
    assert "outcome" not in parsed(earlier.encode_pause())[-1]
    assert encoder.ended


def test_the_stream_ends_once_no_call_of_ours_is_open() -> None:
    encoder = an_encoder()
    waits = []
    for entry in entries_of(*CALLS, result("a"), result("b")):
        encoder.encode([entry])
        waits.append(encoder.pause_after_s)

    assert waits[:6] == [None] * 6
    assert waits[6:] == [PAUSE_IN_STEP_AFTER_S, PAUSE_AFTER_S, PAUSE_AFTER_S, PAUSE_AFTER_S, None]


def test_the_client_gets_what_follows_its_results() -> None:
    encoder = an_encoder(after=len(CALLS), answered=frozenset("ab"))
    answers: list[ClientEvent] = [result("b"), result("a"), TextDelta(message_id="n", delta="So."), DONE]

    stream = encoder.encode(entries_of(*CALLS, *answers))

    assert kinds(stream) == [
        *("RUN_STARTED", "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
        *("STEP_FINISHED", "RUN_FINISHED"),
    ]


def test_a_call_that_is_not_answered_yet_ends_the_next_run_as_well() -> None:
    encoder = an_encoder(after=len(CALLS), answered=frozenset("a"), names_pending=True)

    nothing = encoder.encode(entries_of(*CALLS))

    assert (nothing, encoder.pause_after_s) == (b"", PAUSE_AFTER_S)
    start, end = parsed(encoder.encode_pause())
    assert (start["type"], end["outcome"]["pendingToolCallIds"]) == ("RUN_STARTED", ["b"])


def test_a_call_that_fails_before_the_client_has_it_comes_with_its_result() -> None:
    encoder = an_encoder()
    stream = encoder.encode(entries_of(STARTED, start("a"), STEP, result("a", {"error": "invalid_args"})))

    assert kinds(stream)[-4:] == [
        *("TOOL_CALL_START a", "TOOL_CALL_ARGS a", "TOOL_CALL_END a", "TOOL_CALL_RESULT a")
    ]
    assert encoder.pause_after_s is None


def test_a_pending_approval_comes_first() -> None:
    encoder = an_encoder()
    encoder.encode(entries_of(STARTED, start("a"), STEP, call("a"), REQUEST))

    assert parsed(encoder.encode_pause())[-1]["outcome"]["type"] == "interrupt"


def test_calls_of_an_earlier_attempt_do_not_wait() -> None:
    encoder = an_encoder()
    again = RunStarted(run_id="r-1", graph_id="claude_agents:assistant", model="sonnet", attempt=2)

    encoder.encode(entries_of(STARTED, start("a"), STEP, call("a"), again))

    assert encoder.pause_after_s is None


def test_results_after_the_users_last_message_count() -> None:
    user = {"id": "u", "role": "user", "content": "x"}
    old = {"id": "t0", "role": "tool", "toolCallId": "old", "content": "x"}
    good = {"id": "t1", "role": "tool", "toolCallId": "a", "content": '{"n": 1}'}
    bad = {"id": "t2", "role": "tool", "toolCallId": "b", "content": "", "error": "offline"}
    parts = {**good, "id": "t3", "toolCallId": "c", "content": [{"type": "text", "text": "x"}]}

    posted = AgUiInput.parse(
        {"threadId": "t", "runId": "r", "messages": [user, old, user, good, bad, parts], "tools": [{}, 1]}
    )

    assert {key: (each.result, each.is_error) for key, each in posted.tool_results.items()} == {
        "a": ('{"n": 1}', False),
        "b": ("offline", True),
        "c": ("x", False),
    }
    assert posted.described_tools == []
