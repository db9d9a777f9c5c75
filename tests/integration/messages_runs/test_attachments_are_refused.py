"""What the provider refuses because of an attachment does not end the conversation."""

from collections.abc import Sequence
from typing import Any

import pytest

from app.events import RunWarning
from app.executors.api_format import sent_attachments
from app.executors.api_format.sent_attachments import MAX_CHARS, MAX_COUNT
from app.ids import AccountId, new_uuid
from app.platform.db import Database
from app.requests.messages import ImagePart, Message
from app.simulator.script import Answer, HttpError
from tests.contracts.messages_executor import a_messages_executor
from tests.factories import a_conversation
from tests.integration.messages_runs.stopped_run import Provider, StoppedRun, Story
from tests.media import PIXEL, b64

DOT = ImagePart.of(type="image", media_type="image/png", data=b64(PIXEL))
SHOWN = [Message.of(role="user", content=[DOT]), Message.of(role="assistant", content="A dot.")]
IMAGE = "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum"


def refusing(message: str, *, status: int = 400) -> HttpError:
    return HttpError(status, "invalid_request_error", message=message)


CASES: list[tuple[str, Sequence[Answer], bool, list[int], tuple[bool, int]]] = [
    # What is attached, the provider's refusals, whether the run has an answer; the images in each of its
    # requests, and of the next run: whether it has an answer, and its images.
    ("new", [refusing(IMAGE)], False, [1], (True, 0)),
    ("earlier", [refusing(IMAGE)], True, [1, 0], (True, 0)),
    ("both", [refusing(IMAGE)], True, [2, 1], (True, 1)),
    ("both", [refusing(IMAGE), refusing(IMAGE)], False, [2, 1], (True, 0)),
    ("both", [refusing("Request exceeds the maximum size", status=413)], True, [2, 1], (True, 1)),
    ("both", [refusing("prompt is too long: 9 tokens > 8")] * 2, True, [2, 2, 1], (True, 1)),
    ("both", [refusing("Your credit balance is too low.")], False, [2], (True, 2)),
    ("both", [refusing("image: no such key", status=401)], False, [2], (True, 2)),
]


def images_in(run: StoppedRun) -> list[int]:
    """How many images each request of a run has."""
    return [str(request.messages).count("'type': 'image'") for request in run.requests]


def images_of(message: dict[str, Any]) -> int:
    parts = message["content"][0].get("content", message["content"])
    return [part["type"] for part in parts if isinstance(part, dict)].count("image")


async def test_a_conversation_continues_without_what_was_refused(database: Database) -> None:
    provider = Provider()
    async with a_messages_executor(provider, database=database) as (executor, _):
        for number, (place, refusals, succeeds, images, next_run) in enumerate(CASES):
            first = StoppedRun(
                Story(refusals),
                f"first-{number}",
                a_conversation(AccountId(new_uuid()), "chat"),
                history=SHOWN if place != "new" else (),
                attached=[DOT] if place != "earlier" else (),
            )
            second = StoppedRun(Story([]), f"second-{number}", first.conversation)
            for run in (first, second):
                provider.runs[run.question] = run
                await run.play(executor)

            case = CASES[number]
            assert (first.outcome is None, images_in(first)) == (succeeds, images), case
            assert (second.outcome is None, images_in(second)) == (next_run[0], [next_run[1]]), case
            left_out = ["attachments_left_out"] * (len(set(images)) > 1)
            refused = ["attachment_refused"] * (not succeeds and refusing(IMAGE) in refusals)
            assert [event.code for event in first.of(RunWarning)] == [*left_out, *refused], case
            assert not any("5 MB" in event.message for event in first.of(RunWarning))
            assert second.of(RunWarning) == []
    assert provider.faults == []


TOO_LONG = refusing("prompt is too long: 9 tokens > 8")


async def test_a_conversation_continues_without_a_message_that_is_too_long(database: Database) -> None:
    provider = Provider()
    conversation = a_conversation(AccountId(new_uuid()), "chat")
    async with a_messages_executor(provider, database=database) as (executor, _):
        runs = [
            # The second call requests a summary.
            StoppedRun(Story([TOO_LONG] * refusals), f"run-{number}", conversation)
            for number, refusals in enumerate([0, 2, 0])
        ]
        for run in runs:
            provider.runs[run.question] = run
            await run.play(executor)

    _, second, third = runs
    assert [run.outcome is None for run in runs] == [True, False, True]
    assert [len(run.requests) for run in runs] == [1, 2, 1]
    sent = str(third.requests[0].messages)
    assert [run.question in sent for run in runs] == [True, False, True]
    assert "[This is left out here: it is too long.]" in sent
    assert second.of(RunWarning) == []
    assert provider.faults == []


@pytest.mark.parametrize(("in_result", "size"), [(False, 4), (True, 4), (False, MAX_CHARS // 9)])
def test_the_earliest_attachments_of_a_long_conversation_are_left_out(size: int, *, in_result: bool) -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "x" * size}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [image, image]}
    content = [result] if in_result else [image, image]
    answer: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": "So."}]}
    most = min(MAX_COUNT, MAX_CHARS // size)
    before: list[dict[str, Any]] = []
    changes = 0
    for turns in range(1, MAX_COUNT + 4):
        user: dict[str, Any] = {"role": "user", "content": content}
        messages = [user, answer] * turns
        sent = list(sent_attachments.sendable(messages))
        kept = sum(images_of(each) for each in sent)
        assert most // 2 - 2 <= kept <= most or kept == 2 * turns
        assert images_of(sent[-2]) == 2
        changes += sent[: len(before)] != before
        before = sent
    # The beginning stays the same for half as many images as a request may have.
    assert 1 <= changes <= 2 * turns // (most // 2)


def test_what_is_attached_to_one_message_is_sent() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "x"}}
    earlier = {"role": "user", "content": [image]}
    newest = {"role": "user", "content": [image] * (MAX_COUNT + 1)}

    first, last = sent_attachments.sendable([earlier, newest])

    assert last is newest
    assert first["content"][0]["type"] == "text"
