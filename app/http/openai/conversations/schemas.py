"""JSON of conversations, as clients of OpenAI's API send and read them."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field

from app.conversations.records import Conversation
from app.errors import Invalid
from app.http.openai.messages import Posted, new_content
from app.http.openai.responses.input import InputItem, PostedItems
from app.http.posted_turns import messages_of
from app.requests.attribution import Metadata
from app.requests.messages import Message
from app.runs.conversations.records import Opening
from app.runs.requests.attachments import AttachmentRules

_Items = Annotated[PostedItems, Field(max_length=20)]


class NewConversation(Posted):
    """A conversation, which has no model: each response names its own."""

    items: _Items | None = None
    metadata: Metadata | None = None


class ChangedMetadata(Posted):
    """Metadata in place of that before."""

    metadata: Metadata | None


class NewItems(Posted):
    """What is added before the first response."""

    items: Annotated[_Items, Field(min_length=1)]


class OpenAiConversation(BaseModel):
    """A conversation."""

    id: str
    object: Literal["conversation"] = "conversation"
    created_at: int
    metadata: dict[str, str]

    @classmethod
    def of(cls, conversation: Conversation, opening: Opening) -> Self:
        created_at = int(conversation.created_at.timestamp())
        return cls(id=conversation.state_key, created_at=created_at, metadata=dict(opening.metadata))


class DeletedConversation(BaseModel):
    """What was deleted."""

    id: str
    object: Literal["conversation.deleted"] = "conversation.deleted"
    deleted: Literal[True] = True


def posted_messages(items: list[InputItem] | None, rules: AttachmentRules) -> tuple[Message, ...]:
    """Items as the messages of earlier turns; raises `Invalid` for those that can be none."""
    return tuple(
        message for index, item in enumerate(items or ()) for message in _messages(index, item, rules)
    )


def _messages(index: int, item: InputItem, rules: AttachmentRules) -> Iterator[Message]:
    field = f"items.{index}"
    if (message := item.message) is None or item.type != "message":
        raise Invalid.field(f"{field}.type", "must be message: calls and results are those of responses")
    if item.role not in {"user", "assistant"}:
        raise Invalid.field(f"{field}.role", "must be user or assistant: instructions are for one response")
    content = new_content(f"{field}.content", message, rules)
    if item.role == "assistant":
        yield Message.of(role="assistant", content=message.text)
    else:
        yield from messages_of("user", content)
