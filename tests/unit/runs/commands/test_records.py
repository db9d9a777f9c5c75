"""How large commands are: small ones are encoded on the event loop."""

import json

import pytest

from app.platform.concurrency.offload import SMALL_BYTES
from app.requests.attachments import PART_CHARS
from app.runs.commands.records import ChangeMode, Decide, Send, size_of


@pytest.mark.parametrize(
    ("args", "is_small"),
    [
        (None, True),
        ({}, True),
        ({"to": "bob@example.org", "copies": [1, 2.5, None, True, {"a": "b"}]}, True),
        ({"text": "x" * SMALL_BYTES}, False),
        ({"x" * SMALL_BYTES: 1}, False),
        ({"many": list(range(100_000))}, False),
        ({"deep": [[[["x" * 1000] * 100]]]}, False),
    ],
)
def test_arguments_of_tools_are_as_large_as_their_json(
    args: dict[str, object] | None, *, is_small: bool
) -> None:
    size = size_of(Decide(request_id="r", decision="allow", args=args))

    assert (size <= SMALL_BYTES) is is_small
    assert (len(json.dumps(args)) <= 2 * SMALL_BYTES) or not is_small


def test_a_message_is_about_as_large_as_its_content() -> None:
    message = Send(message_id="m", content="x" * 50_000, priority="now")

    assert (size_of(message), size_of(ChangeMode(mode="plan"))) == (50_000 + PART_CHARS, 0)
