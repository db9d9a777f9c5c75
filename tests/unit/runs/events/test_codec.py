"""A finished run's events are stored compactly and decoded exactly."""

import json
from dataclasses import replace
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from app.events import AssistantFinal, ClientEvent, Done, Status, TextDelta, ThinkingDelta, ToolCallStart
from app.http.native.encoder import NativeEncoder
from app.requests.outcome import FinalUsage
from app.runs.events.codec import DELTAS_PER_ROW, decode_events, decode_joined, encode_events, joined
from app.runs.records import StoredEvents
from app.streams.port import LogEntry

message_ids = st.sampled_from(["msg_1", "msg_2"])
parents = st.sampled_from([None, "toolu_1"])
texts = st.text(max_size=6)
floats = st.floats(allow_nan=False, allow_infinity=False)
events: st.SearchStrategy[ClientEvent] = st.one_of(
    st.builds(TextDelta, messageId=message_ids, delta=texts, parentToolCallId=parents),
    st.builds(ThinkingDelta, messageId=message_ids, delta=texts, parentToolCallId=parents),
    st.builds(Status, phase=st.just("tool_use"), label=texts),
    st.builds(
        ToolCallStart,
        toolCallId=texts,
        toolName=texts,
        args=st.dictionaries(texts, floats | texts | st.none(), max_size=3),
    ),
    st.builds(AssistantFinal, content=texts, structuredOutput=st.lists(floats, max_size=2)),
)

gaps = st.integers(0, 300) | st.integers(0, 10**9)
AT = 1_764_000_000_000


def with_positions(sent: list[ClientEvent], first: int = 1) -> list[LogEntry]:
    return [LogEntry(position, event) for position, event in enumerate(sent, start=first)]


def through_the_database(rows: list[StoredEvents]) -> list[StoredEvents]:
    """The rows as a JSON column returns them."""
    return [replace(row, data=json.loads(json.dumps(row.data))) for row in rows]


@given(st.lists(st.tuples(events, gaps), max_size=30), st.integers(1, 1000))
def test_encoded_events_are_decoded_exactly(sent: list[tuple[ClientEvent, int]], first: int) -> None:
    times = accumulate((gap for _, gap in sent), initial=AT)
    entries = [
        LogEntry(position, event, at)
        for position, ((event, _), at) in enumerate(zip(sent, times, strict=False), first)
    ]
    rows = encode_events(entries)
    back = decode_events(through_the_database(rows))
    assert back == entries
    assert NativeEncoder().encode(back) == NativeEncoder().encode(entries)
    covered = [position for row in rows for position in range(row.position, row.last_position + 1)]
    assert covered == [entry.position for entry in entries]


def test_ten_thousand_words_of_one_message_are_ten_rows() -> None:
    entries = with_positions(
        [TextDelta(message_id="msg_1", delta=f" word{number}") for number in range(10_000)]
    )
    rows = encode_events(entries)
    assert [(row.position, row.last_position) for row in rows] == [
        (start, start + 999) for start in range(1, 10_000, 1000)
    ]
    assert sum(len(json.dumps(row.data)) for row in rows) < 2 * sum(
        len(f" word{number}") for number in range(10_000)
    )
    assert decode_events(rows) == entries


def test_a_single_event_is_stored_as_its_own_json() -> None:
    done = Done(usage=FinalUsage(prompt_tokens=1, completion_tokens=2), finish_reason="stop")
    assert encode_events(with_positions([TextDelta(message_id="m", delta="hi"), done], first=7)) == [
        StoredEvents(7, 7, {"type": "text_delta", "messageId": "m", "delta": "hi"}),
        StoredEvents(
            8,
            8,
            {"type": "done", "usage": {"promptTokens": 1, "completionTokens": 2}, "finishReason": "stop"},
        ),
    ]


def test_times_take_little_space() -> None:
    entries = [
        LogEntry(n, TextDelta(message_id="msg_1", delta=f" word{n}"), AT + 40 * n) for n in range(1, 1001)
    ]
    (row,) = encode_events(entries)
    assert (row.at, len(row.gaps or b"")) == (AT + 40, 999)


def test_only_neighbours_of_one_kind_message_and_parent_share_a_row() -> None:
    entries: list[ClientEvent] = [
        TextDelta(message_id="a", delta="1"),
        TextDelta(message_id="a", delta=""),
        TextDelta(message_id="b", delta="2"),
        TextDelta(message_id="b", delta="3", parent_tool_call_id="p"),
        ThinkingDelta(message_id="b", delta="4", parent_tool_call_id="p"),
        ThinkingDelta(message_id="b", delta="\U0001f6005", parent_tool_call_id="p"),
        Status(phase="thinking", label="x"),
        Status(phase="thinking", label="x"),
        TextDelta(message_id="a", delta="6"),
    ]
    rows = encode_events(with_positions(entries))
    assert [(row.position, row.last_position) for row in rows] == [
        (1, 2), (3, 3), (4, 4), (5, 6), (7, 7), (8, 8), (9, 9),
    ]  # fmt: skip
    assert rows[0].data["delta"] == "1"
    assert rows[0].data["cuts"] == [1, 0]
    assert rows[3].data["delta"] == "4\U0001f6005"
    assert rows[3].data["cuts"] == [1, 2]


def test_halves_of_a_character_replay_as_they_were_streamed() -> None:
    entries = with_positions([TextDelta(message_id="m", delta=half) for half in ("a\ud83d", "\ude00b")])
    back = decode_events(through_the_database(encode_events(entries)))
    assert NativeEncoder().encode(back) == NativeEncoder().encode(entries)


def test_a_long_text_is_stored_in_rows_of_bounded_length() -> None:
    entries = with_positions(
        [TextDelta(message_id="m", delta=f"{n} ") for n in range(2 * DELTAS_PER_ROW + 1)]
    )

    rows = encode_events(entries)

    assert [row.last_position - row.position + 1 for row in rows] == [DELTAS_PER_ROW, DELTAS_PER_ROW, 1]
    assert decode_events(rows) == entries


@given(st.lists(events, max_size=30), st.integers(0, 30))
def test_neighbouring_texts_of_a_message_are_joined_but_for_the_last(
    sent: list[ClientEvent], apart: int
) -> None:
    entries = [entry._replace(at=AT + entry.position) for entry in with_positions(sent)]
    expected: list[LogEntry] = []
    for entry in entries:
        rest = entries[entry.position :]
        before = expected[-1] if expected else entry
        is_last = not rest or not _are_one(entry, rest[0], apart)
        if not is_last and _are_one(before, entry, apart) and before is not entry:
            texts = [each.delta for each in (before.event, entry.event) if isinstance(each, _TEXTS)]
            expected[-1] = before._replace(event=entry.event.model_copy(update={"delta": "".join(texts)}))
        else:
            expected.append(entry)
    assert joined(entries, apart=apart) == expected
    rows = through_the_database(encode_events(entries))
    assert joined(decode_joined(rows, apart=apart), apart=apart) == expected


def test_stored_texts_are_not_parsed_one_by_one() -> None:
    sent: list[ClientEvent] = [TextDelta(message_id="msg_1", delta="a")] * (DELTAS_PER_ROW * 3)
    rows = encode_events(with_positions(sent))
    assert len(decode_joined(rows, apart=0)) == 2 * len(rows)
    assert len(decode_joined(rows, apart=5)) == DELTAS_PER_ROW + 4, "those of the row that is apart"


_TEXTS = (TextDelta, ThinkingDelta)


def _are_one(one: LogEntry, two: LogEntry, apart: int) -> bool:
    first, second = one.event, two.event
    if not isinstance(first, _TEXTS) or not isinstance(second, _TEXTS):
        return False
    kinds = [(each.type, each.message_id, each.parent_tool_call_id) for each in (first, second)]
    return kinds[0] == kinds[1] and not one.position <= apart < two.position
