"""The messages that a foreign chat posts, as those of a run; pure."""

from collections.abc import Sequence

from app.requests.messages import ContentPart, Message, TextPart
from app.runs.requests.attachments import AttachmentRules


def posted_turns(
    before: Sequence[tuple[str, list[ContentPart]]],
    new: list[ContentPart],
    rules: AttachmentRules,
    *,
    with_history: bool,
) -> list[Message]:
    """The messages of a run that answers `new`; `before` are roles and contents of the ones before it.

    `with_history`: those are earlier turns; otherwise they are the user's, and part of the new message.
    """
    contents = rules.fitting([content for _, content in before], new=new)
    if not with_history:
        return messages_of("user", [*(part for content in contents for part in content), *new])
    earlier = zip((role for role, _ in before), contents, strict=True)
    return [message for role, content in (*earlier, ("user", new)) for message in messages_of(role, content)]


def messages_of(role: str, content: Sequence[ContentPart]) -> list[Message]:
    """The message with these parts; none if there are none."""
    match content:
        case []:
            return []
        case [TextPart(text=text)]:
            return [Message.of(role=role, content=text)]
        case _:
            return [Message.of(role=role, content=list(content))]
