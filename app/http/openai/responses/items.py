"""The items of runs: what their responses were asked with, and what they have answered; pure."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from app.events import ClientToolCall, PermissionRequest, PermissionResolved, ToolCallResult
from app.http.openai.answer import AnswerOptions
from app.http.openai.continuing import received_in
from app.http.openai.mapper import call_id
from app.http.openai.responses.encoder import WholeResponse, output_text
from app.http.openai.responses.ids import ResponseName
from app.requests.messages import ContentPart, ImagePart, Message, TextPart
from app.runs.records import RunRecord
from app.streams.port import LogEntry

Item: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What is kept of a run, as far as its items follow from it."""

    record: RunRecord
    messages: Sequence[Message]
    """Those of its request."""
    is_object: bool
    """Whether it was requested to answer with an object."""
    entries: Sequence[LogEntry]
    waits: Collection[str]
    """Its calls and requests that have no answer."""
    size: int
    """About how many bytes all of it has."""


def asked_in(name: ResponseName, run: StoredRun, *, has_images: bool) -> Iterator[Item]:
    if name.after:
        *_, before = (each for each, _ in _responses_in(run, page="") if each.after < name.after)
        yield from _answers_in(name, before, run.entries)
        return
    system = [message for message in run.messages if message.role == "system"]
    yield from _message_items(name, system, has_images=has_images)
    yield from turns_of(name, run.messages, has_images=has_images)


def turns_of(name: ResponseName, messages: Sequence[Message], *, has_images: bool) -> Iterator[Item]:
    """The messages of a run without those of the system, which are for one response only."""
    turns = [message for message in messages if message.role != "system"]
    yield from _message_items(name, turns, has_images=has_images)


def items_of(run: StoredRun, *, page: str, has_images: bool) -> list[Item]:
    """All that a run was asked and has answered, in order, with the ids of its responses' items."""
    before = ResponseName(run.record.key.run_id)
    items = list(turns_of(before, run.messages, has_images=has_images))
    for name, answered in _responses_in(run, page=page):
        items += [*_answers_in(name, before, run.entries), *answered]
        before = name
    return items


def _responses_in(run: StoredRun, *, page: str) -> Iterator[tuple[ResponseName, Sequence[Item]]]:
    options = AnswerOptions(run.record.graph_id, run.is_object, has_usage=False, page=page)
    after: int | None = 0
    while after is not None:
        received = received_in(run.entries, after, waits=run.waits)
        response = WholeResponse(run.record, options, received)
        response.encode_so_far(run.entries)
        yield response.name, response.content["output"]
        after = response.next_after


def _message_items(name: ResponseName, messages: Sequence[Message], *, has_images: bool) -> Iterator[Item]:
    """Messages as items; their places are parts of their ids."""
    for number, message in enumerate(messages):
        kind = "sys" if message.role == "system" else "in"
        item = {"id": name.id_of("msg", f"{kind}{number}"), "type": "message", "status": "completed"}
        if message.role == "assistant":
            yield {**item, "role": "assistant", "content": [output_text(message.text)]}
        else:
            role = "user" if message.role == "user" else "developer"
            yield {**item, "role": role, "content": [_part(each, has_images) for each in message.parts]}


def _part(part: ContentPart, has_images: bool) -> dict[str, Any]:  # noqa: FBT001
    match part:
        case TextPart(text=text):
            return {"type": "input_text", "text": text}
        case ImagePart(data=data, media_type=media_type, url=url):
            if data is not None and has_images:
                url = f"data:{media_type};base64,{data}"
            return {"type": "input_image", "detail": "auto", "image_url": url, "file_id": None}
        case _:
            return {"type": "input_file", "filename": part.title, "file_url": part.url, "file_id": None}


def _answers_in(name: ResponseName, before: ResponseName, entries: Sequence[LogEntry]) -> Iterator[Item]:
    """The results and decisions that a run got for what had waited where this response begins.

    `before`: the response that has asked for them.
    """
    waiting: set[str] = set()
    number = 0
    for position, event, _ in entries:
        match event:
            case ClientToolCall(tool_call_id=known) | PermissionRequest(request_id=known):
                if position <= name.after:
                    waiting.add(known)
                continue
            case ToolCallResult(tool_call_id=known):
                output = event.result if isinstance(event.result, str) else json.dumps(event.result)
                call = call_id(name.run_id, known)
                item: Item = {
                    "id": name.id_of("fco", f"in{number}"),
                    "type": "function_call_output",
                    "status": "completed",
                    "call_id": call,
                    "output": output,
                }
            case PermissionResolved(request_id=known, reason="decided"):
                item = {
                    "id": name.id_of("mcpa", f"in{number}"),
                    "type": "mcp_approval_response",
                    "approval_request_id": before.id_of("mcpr", known),
                    "approve": event.decision != "deny",
                }
            case _:
                continue
        if known in waiting:
            waiting.discard(known)
            if position > name.after:
                number += 1
                yield item
