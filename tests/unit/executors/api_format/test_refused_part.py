"""Which attachment of a message a refusal is about."""

import pytest

from app.executors.api_format.refused_part import refused_part

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
    sentence = f"The model's provider has refused {parts} of the message."

    assert refused_part(reason, [EARLIER, LAST]) == sentence


def test_where_nothing_is_attached_nothing_is_named() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [IMAGE]}

    for content in ([TEXT], [result]):
        reason = "messages.1.content.0.content.0: image exceeds 5 MB maximum"
        assert refused_part(reason, [EARLIER, {"role": "user", "content": content}]) is None
