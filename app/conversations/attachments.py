"""What a message of a transcript had attached, without its content; pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.conversations.history_text import HistoryTurn, attachment_note
from app.requests.attachments import PDF, size_of_base64


@dataclass(frozen=True, slots=True)
class AttachmentSummary:
    """An attachment of a user's message."""

    type: str
    """`image` or `document`."""
    media_type: str | None
    """None of an image by URL."""
    title: str | None
    size: int | None
    """The number of bytes; None by URL."""
    url: str | None


def attachments_of(blocks: Sequence[Mapping[str, Any]]) -> list[AttachmentSummary]:
    """Those of content blocks, in order."""
    return list(_summaries(blocks))


def noted_in(
    turns: Sequence[HistoryTurn], attachments: Sequence[AttachmentSummary]
) -> dict[int, AttachmentSummary]:
    """The attachments that turns of an encoded history stand for, by the turn's index."""
    found: dict[int, AttachmentSummary] = {}
    for index, turn in enumerate(turns):
        if len(found) == len(attachments):
            break
        attachment = attachments[len(found)]
        if turn.role == "user" and turn.text == attachment_note(attachment.type, len(found) + 1):
            found[index] = attachment
    return found


def _summaries(blocks: Sequence[Mapping[str, Any]]) -> Iterator[AttachmentSummary]:
    for block in blocks:
        match block:
            case {"type": "image" | "document" as kind, "source": dict(source)}:
                title = _text(block.get("title"))
                yield _summary(str(kind), source, title)
            case _:
                pass


def _summary(kind: str, source: Mapping[str, Any], title: str | None) -> AttachmentSummary:
    url, data = _text(source.get("url")), _text(source.get("data")) or ""
    if url is not None:
        return AttachmentSummary(kind, PDF if kind == "document" else None, title, None, url)
    size = len(data.encode()) if source.get("type") == "text" else size_of_base64(data)
    return AttachmentSummary(kind, _text(source.get("media_type")), title, size, None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
