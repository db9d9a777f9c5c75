"""Answers in unusual forms: each is read, or the run makes no further call."""

import gzip
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from structlog.testing import capture_logs

from app.gateway.answer_usage import UNCOUNTED
from app.gateway.call import NAMELESS, REPEATED, UNREADABLE
from app.simulator import wire
from app.simulator.script import Reply, Text
from app.usage.records import TokenUsage
from tests.integration.gateway_seam import MESSAGE_REQUEST, MODEL, STREAMED, Seam
from tests.integration.test_gateway_hostile_provider import answering

REPLY = Reply([Text("Grüße aus 東京")], message_id="msg_1")
STREAM = b"".join(map(wire.sse, wire.events(REPLY, model=MODEL)))
BODY = json.dumps(wire.message(REPLY, model=MODEL), ensure_ascii=False).encode()
SSE, JSON = "text/event-stream", "application/json"
READ = TokenUsage(input_tokens=10, output_tokens=20)


@asynccontextmanager
async def an_answer(body: bytes, *, piece: int = 65_536, **headers: str) -> AsyncIterator[Seam]:
    """A provider that answers everything with this, in pieces of a size."""
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    pieces = [body[at : at + piece] for at in range(0, len(body), piece)]
    async with answering(200, named, *pieces) as seam:
        yield seam


@pytest.mark.parametrize("piece", [1, 7, 65_536])
@pytest.mark.parametrize(
    ("headers", "body"),
    [
        pytest.param({"content_type": SSE}, STREAM, id="as usual"),
        pytest.param({"content_type": "Text/Event-Stream; charset=UTF-8"}, STREAM, id="another letter case"),
        pytest.param({}, STREAM, id="no content type"),
        pytest.param({"content_type": JSON}, STREAM, id="a stream that is called JSON"),
        pytest.param({"content_type": SSE}, BODY, id="JSON that is called a stream"),
        pytest.param({"content_type": "APPLICATION/JSON; charset=utf-8"}, BODY, id="JSON"),
        pytest.param({"content_type": JSON}, b"\xef\xbb\xbf \n" + BODY, id="a byte order mark before JSON"),
        pytest.param({"content_type": SSE}, STREAM.replace(b"data: ", b"data:"), id="no space"),
        pytest.param({"content_type": SSE}, b"{}\n\n" + STREAM, id="a stream that begins like JSON"),
        pytest.param({"content_encoding": "gzip"}, gzip.compress(STREAM), id="gzip"),
        pytest.param({"content_encoding": "gzip", "content_type": JSON}, gzip.compress(BODY), id="gzip JSON"),
        pytest.param({"content_encoding": "Deflate"}, zlib.compress(STREAM), id="deflate"),
        pytest.param(
            {"content_encoding": "gzip, deflate"}, zlib.compress(gzip.compress(STREAM)), id="compressed twice"
        ),
    ],
)
async def test_an_answer_in_an_unusual_form_is_read(headers: dict[str, str], body: bytes, piece: int) -> None:
    async with an_answer(body, piece=piece, **headers) as seam:
        for asked in (STREAMED, MESSAGE_REQUEST):
            response = await seam.send_message(asked)
            assert response.status_code == 200
            assert "content-encoding" not in response.headers
            assert response.content.endswith(b"}") or b"message_stop" in response.content
        await seam.gateway.close_channel(seam.channel)

    messages = list(seam.channel.messages.values())
    assert [(message.usage, message.complete) for message in messages] == [(READ, True)] * 2
    assert [message.note for message in messages] == [None, REPEATED]
    assert seam.channel.refused is None


def without_usage(answer: bytes) -> bytes:
    return answer.replace(b'"usage"', b'"usages"')


PROMPT = len(json.dumps(STREAMED, separators=(",", ":"))) // 4
"""The provider of these tests counts no tokens."""


@pytest.mark.parametrize(
    ("content_type", "body", "output", "note"),
    [
        pytest.param(SSE, gzip.compress(STREAM), 0, UNREADABLE, id="gzip that is not declared"),
        pytest.param(JSON, b"<html>Please sign in</html>", 0, UNREADABLE, id="a page"),
        pytest.param(SSE, b"", 0, UNREADABLE, id="nothing"),
        pytest.param(JSON, b'{"answer": "hi"}', 0, UNREADABLE, id="another API"),
        pytest.param(JSON, BODY[:-5], 0, UNREADABLE, id="broken JSON"),
        pytest.param(SSE, STREAM.replace(b"_start", b"_begin"), 5, UNREADABLE, id="no start"),
        pytest.param(SSE, without_usage(STREAM), 5, UNCOUNTED, id="no usage"),
        pytest.param(JSON, without_usage(BODY), 16, UNCOUNTED, id="no usage in JSON"),
    ],
)
async def test_after_an_answer_without_usage_the_run_makes_no_further_call(
    content_type: str, body: bytes, output: int, note: str
) -> None:
    with capture_logs() as logs:
        async with an_answer(body, content_type=content_type) as seam:
            first = await seam.send_message()
            again = await seam.send_message()
            await seam.gateway.close_channel(seam.channel)

    assert (first.status_code, again.status_code) == (200, 402)
    assert seam.channel.refused == "answer"
    alarms = {"gateway.response_unparsable", "gateway.usage_unreadable"}
    assert [entry["log_level"] for entry in logs if entry["event"] in alarms] == ["error"]
    (message,) = seam.channel.messages.values()
    assert message.usage == TokenUsage(input_tokens=PROMPT, output_tokens=output)
    assert (message.note, message.output_estimated) == (note, True)


async def test_a_body_that_is_not_compressed_as_its_header_says_ends_the_run() -> None:
    async with an_answer(STREAM, content_encoding="gzip", content_type=SSE) as seam:
        with pytest.raises(httpx.RemoteProtocolError):
            await seam.send_message()
        again = await seam.send_message()
        await seam.gateway.close_channel(seam.channel)

    assert again.status_code == 402
    assert list(seam.channel.messages) == ["unanswered-1"]


async def test_a_compressed_answer_may_not_expand_without_end() -> None:
    async with an_answer(gzip.compress(bytes(40_000_000)), content_encoding="gzip") as seam:
        with pytest.raises(httpx.RemoteProtocolError):
            await seam.send_message()

    assert seam.channel.refused == "answer"


async def test_messages_without_an_id_are_charged_each_under_an_id_of_its_own() -> None:
    nameless = STREAM.replace(b'"id": "msg_1", ', b"")
    async with an_answer(nameless, content_type=SSE) as seam:
        await seam.send_message()
        await seam.send_message()
        await seam.gateway.close_channel(seam.channel)

    assert {name: (message.usage, message.note) for name, message in seam.channel.messages.items()} == {
        "unnamed-1": (READ, NAMELESS),
        "unnamed-2": (READ, NAMELESS),
    }
    # The journal has the id from the beginning on, so that a recovered message has the same.
    assert [message.message_id for message in seam.noted.opened] == ["unnamed-1", "unnamed-2"]


async def test_an_error_that_is_sent_as_a_success_costs_nothing() -> None:
    error = b'{"type": "error", "error": {"type": "overloaded_error", "message": "x"}}'
    async with an_answer(error, content_type=JSON) as seam:
        await seam.send_message()
        again = await seam.send_message()
        await seam.gateway.close_channel(seam.channel)

    assert again.status_code == 200
    assert seam.channel.messages == {}
    assert len(seam.noted.voided) == 2
