"""What an AG-UI client is to show, compared with what it shows; pure.

A client posts all that it shows, with ids of its own. The conversation has the texts that the model got: for
messages from before it, and for several messages that were answered as one, without the client's ids.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from typing import Final, TypeAlias

from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    DeveloperMessage,
    Message,
    ReasoningMessage,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)

from app.conversations.branching.tree import is_imported
from app.conversations.history_text import escape_tags
from app.runs.records import QUESTION_CHARS
from app.runs.requests.attachments import UNREADABLE_PATTERN

Snapshot: TypeAlias = list[Message]

_NOTE: Final = re.compile(UNREADABLE_PATTERN)


def snapshots_for(
    posted: Sequence[Message],
    stored: Sequence[Message],
    new: Sequence[Message],
    *,
    received: Sequence[Message] = (),
) -> list[Snapshot]:
    """The snapshots after which the client shows the conversation; none if it shows it already.

    `stored`: the conversation up to the last message that it has in common with what the client has posted.
    `new`: what follows, which is as the client shows it. `received`: reasoning that is streamed again. It
    is sent empty: clients keep their own unless a snapshot has it.
    """
    shown = [*_as_posted(posted, stored), *new]
    if not received and _texts(posted) == _texts(shown) and _calls(posted) == _calls(shown):
        return []
    return snapshots_to(posted, shown, received=received)


def snapshots_to(
    posted: Sequence[Message], shown: Sequence[Message], *, received: Sequence[Message] = ()
) -> list[Snapshot]:
    """The snapshots after which a client that has the one shows the other.

    Since 0.0.53 clients keep the places of the messages that they have, and append all others. Where one
    belongs between those, a first snapshot leaves only the messages before it. System messages are the
    client's own, and not part of a conversation.
    """
    system = [each for each in posted if isinstance(each, SystemMessage | DeveloperMessage) and each.content]
    again = {message.id for message in received}
    reasoning = [
        message.model_copy(update={"content": ""}) if message.id in again else message
        for message in posted
        if received and isinstance(message, ReasoningMessage)
    ]
    whole = [*system, *shown, *reasoning]
    ids = [message.id for message in shown]
    wanted = set(ids)
    kept = [message.id for message in posted if message.id in wanted]
    if kept == ids[: len(kept)]:
        return [whole]
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(kept, ids, strict=False)))
    return [[*system, *shown[:same]], whole]


def in_conversation(messages: Iterable[Message]) -> list[Message]:
    """Those of user, agent and tools: a snapshot without the other kinds leaves a client its own."""
    others = SystemMessage | DeveloperMessage | ReasoningMessage | ActivityMessage
    return [message for message in messages if not isinstance(message, others)]


def _as_posted(posted: Sequence[Message], stored: Sequence[Message]) -> Iterator[Message]:
    """The stored messages; those that say what the client shows in its own form, with what only it knows."""
    own = in_conversation(posted)
    places = {message.id: place for place, message in enumerate(own)}
    results = {message.tool_call_id: message for message in own if isinstance(message, ToolMessage)}
    imported = list(takewhile(lambda message: is_imported(message.id), stored))
    rest = stored[len(imported) :]
    begin = min((places[message.id] for message in rest if message.id in places), default=len(own))
    if imported:
        yield from own[:begin] if _turns(own[:begin]) == _turns(imported) else imported
    asked = set[str]()
    for message in rest:
        match message:
            case UserMessage():
                question = _question(message, own, places.get(message.id))
                yield from (each for each in question if each.id not in asked)
                asked |= {each.id for each in question}
            case ToolMessage(tool_call_id=call_id) if (result := results.get(call_id)) is not None:
                yield result if result.content == message.content else message
            case _:
                yield message


def _question(stored: UserMessage, own: Sequence[Message], place: int | None) -> Sequence[Message]:
    """A user's message as the client shows it: also as several messages that were answered as one."""
    if place is None:
        return [stored]
    text = _bare(text_of(stored))
    first, found = None, ""
    for index in range(place, -1, -1):
        message = own[index]
        if not isinstance(message, UserMessage) or len(found) > len(text):
            break
        found = _bare(text_of(message)) + found
        if found == text:
            # Goes on: those before it may have attachments only.
            first = index
    if first is None and _is_cut(stored, own[place]):
        first = place
    return [stored] if first is None else own[first : place + 1]


def _is_cut(stored: UserMessage, posted: Message) -> bool:
    """Whether only the beginning of a message is stored, because no model has got it."""
    text = text_of(stored)
    return (
        len(text) >= QUESTION_CHARS and isinstance(posted, UserMessage) and text_of(posted).startswith(text)
    )


def text_of(message: UserMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n\n".join(part.text for part in message.content if isinstance(part, TextPart))


def _turns(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """Roles and texts as they are compared, neighbours of one role together."""
    texts = ((role, _bare(text)) for role, _, text in _written(messages))
    grouped = groupby((each for each in texts if each[1]), key=lambda each: each[0])
    return [(role, "".join(text for _, text in group)) for role, group in grouped]


def _bare(text: str) -> str:
    """A text without white space, and without what the model gets instead of attachments."""
    return "".join(escape_tags(_NOTE.sub("", text)).split())


def _texts(messages: Iterable[Message]) -> list[tuple[str, str, str]]:
    """Roles, ids and texts of what user and agent wrote, without white space around it."""
    written = ((role, message_id, text.strip()) for role, message_id, text in _written(messages))
    return [each for each in written if each[2] or each[0] == "user"]


def _written(messages: Iterable[Message]) -> Iterator[tuple[str, str, str]]:
    for message in messages:
        match message:
            case AssistantMessage(content=str(text)) if message.subagent_run_id is None:
                yield "assistant", message.id, text
            case UserMessage():
                yield "user", message.id, text_of(message)
            case _:
                continue


def _calls(messages: Iterable[Message]) -> set[str]:
    return {
        call.id
        for message in messages
        if isinstance(message, AssistantMessage) and message.subagent_run_id is None
        for call in message.tool_calls or []
    }
