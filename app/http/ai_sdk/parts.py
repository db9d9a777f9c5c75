"""Parts of the AI SDK for questions, sources, failed calls, and data that it has no part for; pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from app.events import Citation, ClientEvent, QuestionAsked, QuestionResolved
from app.http.ai_sdk.blocks import Part
from app.streams.event_json import to_json


@dataclass(frozen=True, slots=True)
class QuestionParts:
    """One part for each request for answers, which in the end shows how the request was resolved."""

    _waiting: dict[str, Part] = field(default_factory=dict)

    def map(self, event: QuestionAsked | QuestionResolved, run_id: str) -> Part:
        fields = fields_of(event)
        if isinstance(event, QuestionAsked):
            self._waiting[event.request_id] = fields
            return _question({**fields, "runId": run_id, "state": "asked"})
        state = fields.pop("resolvedBy")
        asked = self._waiting.pop(event.request_id, {})
        return _question({**asked, **fields, "runId": run_id, "state": state})

    def close(self, run_id: str) -> Iterator[Part]:
        """Questions of an attempt that is over are asked anew, if at all."""
        for asked in self._waiting.values():
            yield _question({**asked, "runId": run_id, "state": "run_stopped"})
        self._waiting.clear()


@dataclass(slots=True)
class Sources:
    """Chats show each part, so there is one for each page."""

    _cited: set[str] = field(default_factory=set)

    def add(self, event: Citation) -> Iterator[Part]:
        """The part of a page that was not cited before."""
        if event.url in self._cited:
            return
        self._cited.add(event.url)
        source: Part = {"type": "source-url", "sourceId": f"source-{len(self._cited)}", "url": event.url}
        yield source if event.title is None else {**source, "title": event.title}


def _question(data: Part) -> Part:
    return data_part("question", data, part_id=data["requestId"])


def fields_of(event: ClientEvent) -> dict[str, Any]:
    """The event's fields on the native wire, without its type."""
    fields: dict[str, Any] = json.loads(to_json(event))
    del fields["type"]
    return fields


def data_part(name: str, data: JsonValue, *, part_id: str | None = None, transient: bool = False) -> Part:
    """A data part; clients keep it in the message unless it is transient, one per id."""
    part: Part = {"type": f"data-{name}", "data": data}
    if part_id is not None:
        part["id"] = part_id
    return {**part, "transient": True} if transient else part


def failed(call_id: str, reason: str) -> Part:
    return {
        "type": "tool-output-error",
        "toolCallId": call_id,
        "errorText": failed_call(reason),
    }


def failed_call(reason: str) -> str:
    """The text of a tool call's error."""
    return f"The tool call failed: {reason}."


def reason_of(result: JsonValue) -> str:
    """Why a tool call failed, from its result."""
    match result:
        case {"error": str(code)}:
            return code
        case _:
            return json.dumps(result)
