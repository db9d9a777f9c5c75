"""Which attachment of a message a refusal is about."""

import json
import re

import pytest

from app.events import RunWarning
from app.executors.api_format.failures import rejected_part
from app.executors.api_format.refused_part import refused_part
from app.gateway.call import Rejection

TEXT = {"type": "text", "text": "Look."}
IMAGE = {"type": "image", "source": {}}
PDF = {"type": "document", "source": {}}
EARLIER = {"role": "user", "content": [IMAGE]}
LAST = {"role": "user", "content": [TEXT, IMAGE, TEXT, PDF]}


@pytest.mark.parametrize(
    ("reason", "parts"),
    [
        ("messages.1.content.1.image.source.base64: image exceeds 5 MB maximum", "attachment 1 (image)"),
        ("messages.1.content.3: The PDF specified was not valid.", "attachment 2 (document)"),
        (
            "{'paths': ['messages.0.content.0', 'messages.1.content.1', 'messages.1.content.3']}",
            "attachment 1 (image), attachment 2 (document)",
        ),
        ("Could not process image", "attachment 1 (image) or attachment 2 (document)"),
        # No attachments.
        ("messages.1.content.2: empty", "attachment 1 (image) or attachment 2 (document)"),
        ("messages.99.content.1: empty", "attachment 1 (image) or attachment 2 (document)"),
    ],
)
def test_the_parts_are_named_in_our_words(reason: str, parts: str) -> None:
    message = f"The model's provider has refused {parts} of the message."
    numbers = re.findall(r"\d", parts)

    warning = refused_part(reason, [EARLIER, LAST])

    assert warning == RunWarning(code="attachment_refused", message=message, names=numbers)


@pytest.mark.parametrize(
    ("status", "reason", "request_body", "warns"),
    [
        (400, "messages.1.content.1.image: image exceeds 5 MB maximum", {"messages": [EARLIER, LAST]}, True),
        (413, "too large", {"messages": [EARLIER, LAST]}, True),
        # An earlier message, its length, or something else.
        (400, "messages.0.content.0.image: image exceeds 5 MB", {"messages": [EARLIER, LAST]}, False),
        (400, "prompt is too long, with 3 images", {"messages": [EARLIER, LAST]}, False),
        (400, "tools.0: is not valid", {"messages": [EARLIER, LAST]}, False),
        (413, "too large", {"messages": []}, False),
        (413, "too large", {"messages": [{"content": 7}]}, False),
        (413, "too large", [], False),
    ],
)
def test_only_what_is_about_the_last_message_is_a_warning(
    status: int, reason: str, request_body: object, *, warns: bool
) -> None:
    rejection = Rejection(status, reason, json.dumps(request_body).encode())

    assert (rejected_part(rejection) is not None) is warns


def test_where_nothing_is_attached_nothing_is_named() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [IMAGE]}

    for content in ([TEXT], [result]):
        reason = "messages.1.content.0.content.0: image exceeds 5 MB maximum"
        assert refused_part(reason, [EARLIER, {"role": "user", "content": content}]) is None
