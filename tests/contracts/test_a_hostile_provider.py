"""Answers that no provider should give: the run ends, and clients see nothing that is not billed."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from app.events import MeterReport, TextDelta, ThinkingDelta, ToolCallResult, ToolCallStart, UsageReport
from app.platform.server.loopback import Receive, Scope, Send, read_body, serve_on_loopback
from app.simulator import wire
from app.simulator.script import Reply, Text
from tests.contracts.messages_executor import an_executor_over
from tests.contracts.test_executor import Run
from tests.patience import PATIENCE_S
from tests.unit.executors.claude_agent.an_executor import a_graph
from tests.unit.tools.samples.weather import weather

START = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 7}}}
TEXT = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
DELTA = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "one two"}}
STOP = {"type": "content_block_stop", "index": 0}
END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}
LAST = {"type": "message_stop"}
WHOLE = [START, TEXT, DELTA, STOP, END, LAST]


def call(index: int, call_id: Any = "t1", args: str = "{}", name: Any = weather.id) -> list[dict[str, Any]]:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": args}
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]


def sse(*events: Any) -> bytes:
    return b"".join(each if isinstance(each, bytes) else wire.sse(each) for each in events)


def with_delta(text: str) -> dict[str, Any]:
    return {**DELTA, "delta": {"type": "text_delta", "text": text}}


ENDED = {**END, "delta": {"stop_reason": "tool_use"}}
DEEP = (
    b'event: x\ndata: {"type": "content_block_start", "index": 3, "content_block": '
    + b"[" * 100_000
    + b"\n\n"
)

STREAMS: dict[str, bytes] = {
    "nothing": b"",
    "a page": b"<html><body>Welcome</body></html>",
    "out of order": sse(END, DELTA, TEXT, START),
    "a delta of no block": sse(START, DELTA, STOP, END, LAST),
    "blocks before the message": sse(TEXT, DELTA, STOP, START, END, LAST),
    "two beginnings": sse(START, START, *WHOLE[1:]),
    "two messages in one": sse(*WHOLE, *WHOLE),
    "a block twice": sse(START, TEXT, DELTA, TEXT, DELTA, STOP, END, LAST),
    "more after the end": sse(*WHOLE, {**TEXT, "index": 1}, {**DELTA, "index": 1}),
    "an endless word": sse(START, TEXT, with_delta("x" * 10_000_000), STOP, END, LAST),
    "an unknown block": sse(START, {**TEXT, "content_block": {"type": "hologram", "x": 1}}, STOP, END, LAST),
    "an unknown delta": sse(START, TEXT, {**DELTA, "delta": {"type": "smell"}}, DELTA, STOP, END, LAST),
    "no reason to stop": sse(START, TEXT, DELTA, STOP, {**END, "delta": {"stop_reason": None}}, LAST),
    "an odd reason to stop": sse(
        START, TEXT, DELTA, STOP, {**END, "delta": {"stop_reason": {"a": [1]}}}, LAST
    ),
    "an error in the middle": sse(
        START, TEXT, DELTA, {"type": "error", "error": {"type": "overloaded_error"}}
    ),
    "an error that is none": sse(START, TEXT, DELTA, b"event: error\ndata: {\n\n"),
    "no JSON": sse(START, TEXT, b"event: content_block_delta\ndata: {{{\n\n", DELTA, STOP, END, LAST),
    "no object": sse(START, b"event: x\ndata: [1]\n\n", TEXT, DELTA, STOP, END, LAST),
    "no UTF-8": sse(START, TEXT, b"event: content_block_delta\ndata: \xff\xfe\n\n", DELTA, STOP, END, LAST),
    "as deep as can be": sse(START, DEEP, TEXT, DELTA, STOP, END, LAST),
    "numbers without end": sse(START, b'data: {"type": "x", "n": ' + b"9" * 9_999 + b"}\n\n", *WHOLE[1:]),
    "no number at all": sse(START, b'data: {"type": "x", "n": NaN}\n\n', *WHOLE[1:]),
    "unstorable text": sse(START, TEXT, with_delta("a\0b\ud800"), STOP, END, LAST),
    "no usage": sse({**START, "message": {"id": "msg_1"}}, TEXT, DELTA, STOP, {**END, "usage": None}, LAST),
    "an id of another kind": sse({**START, "message": {"id": ["x"], "model": 7, "usage": 3}}, *WHOLE[1:]),
    "an empty id": sse({**START, "message": {"id": "", "usage": {"input_tokens": 1}}}, *WHOLE[1:]),
    "a long id": sse({**START, "message": {"id": "\x1b\n" * 9_999, "usage": {}}}, *WHOLE[1:]),
    "calls with one id": sse(START, *call(0), *call(1), ENDED, LAST),
    "calls with odd ids": sse(START, *call(0, "\n\x1b"), *call(1, ""), *call(2, "x" * 99_999), ENDED, LAST),
    "a call without an id": sse(START, *call(0, None), *call(1, {"a": 1}), ENDED, LAST),
    "a call of no tool": sse(START, *call(0, name=None), *call(1, "t2", name="x" * 99_999), ENDED, LAST),
    "odd arguments": sse(START, *call(0, args='{"city": NaN}'), *call(1, "t2", "[" * 99_999), ENDED, LAST),
    "a thousand calls": sse(START, *(e for n in range(1000) for e in call(n, f"t{n}")), ENDED, LAST),
    "a call that ends twice": sse(START, *call(0), call(0)[2], ENDED, LAST),
    "carriage returns": sse(*WHOLE).replace(b"\n", b"\r"),
    "in one piece": json.dumps({"type": "message", "id": "msg_1", "usage": {"input_tokens": 3}}).encode(),
}


class Provider:
    """Sends this once, and good answers afterwards."""

    def __init__(
        self, body: bytes, *, status: int = 200, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        self.calls = 0
        self._answer = (status, headers, body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        if scope["path"].endswith("count_tokens"):
            await self._send(send, 200, [], b'{"input_tokens": 5}')
            return
        self.calls += 1
        good = sse(*wire.events(Reply([Text("fine")], message_id=f"msg_good{self.calls}"), model="m"))
        await self._send(send, *(self._answer if self.calls == 1 else (200, [], good)))

    async def _send(
        self, send: Send, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> None:
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        await send({"type": "http.response.body", "body": body})


async def attacked(provider: Provider) -> Run:
    """A run with this provider, after what must be true of each."""
    async with serve_on_loopback(provider) as url, an_executor_over(url) as executor:
        spec = a_graph(tools=(weather.id,))
        run = Run(executor, tools=(weather,), spec=spec, timeout=timedelta(seconds=PATIENCE_S))
        outcome = await run.outcome()
    billed = {report.fact.message_id for report in run.of(UsageReport)}
    shown = {event.message_id for event in (*run.of(TextDelta), *run.of(ThinkingDelta))}
    # The gateway gives a message without an id one of its own.
    assert {message_id or "unnamed-1" for message_id in shown} <= billed
    assert outcome in {
        None,
        ("internal", "error"),
        ("provider_unavailable", "error"),
        ("invalid_request", "error"),
    }
    assert (len(run.of(MeterReport)), provider.calls <= 5) == (1, True)
    started = [event.tool_call_id for event in run.of(ToolCallStart)]
    assert len(set(started)) == len(started)
    assert {event.tool_call_id for event in run.of(ToolCallResult)} <= {*started}
    json.dumps([event.model_dump(mode="json") for event in run.of(TextDelta)], allow_nan=False)
    return run


@pytest.mark.parametrize("stream", STREAMS)
async def test_whatever_is_streamed_the_run_ends_and_nothing_is_shown_that_is_not_billed(stream: str) -> None:
    run = await attacked(Provider(STREAMS[stream]))

    reports = run.of(UsageReport)
    # Each call was charged once: by its message, or by a placeholder.
    assert len({report.fact.message_id for report in reports}) == len(reports) >= 1


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (302, [(b"location", b"http://127.0.0.1:9/")]),
        (307, [(b"location", b"/v1/messages")]),
        (204, []),
        (200, [(b"content-encoding", b"br")]),
        (200, [(b"content-encoding", b"gzip")]),
        (200, [(b"content-type", b"text/html"), (b"x-should-retry", b"true")]),
        (400, [(b"x-should-retry", b"true"), (b"retry-after", b"0")]),
        (418, [(b"retry-after-ms", b"nan"), (b"set-cookie", b"a=b")]),
    ],
)
async def test_whatever_the_head_of_an_answer_is_the_run_ends(
    status: int, headers: Sequence[tuple[bytes, bytes]]
) -> None:
    await attacked(Provider(sse(*WHOLE) if status == 200 else b"", status=status, headers=headers))


async def test_an_answer_that_stops_in_the_middle_of_a_line_is_continued() -> None:
    for cut in range(1, len(sse(*WHOLE)), 97):
        await attacked(Provider(sse(*WHOLE)[:cut]))


async def test_calls_with_one_id_are_two_calls() -> None:
    run = await attacked(Provider(STREAMS["calls with one id"]))

    assert len(run.of(ToolCallStart)) == len(run.of(ToolCallResult)) == 2
