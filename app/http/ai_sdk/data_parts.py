"""Parts with the data of events that the AI SDK has no part for; pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from app.events import ClientEvent, QuestionAsked, QuestionResolved
from app.http.ai_sdk.blocks import Part
from app.streams.event_json import to_json


@dataclass(frozen=True, slots=True)
class QuestionParts:
    """One part for each request for answers, which in the end shows how the request was resolved."""

    _waiting: dict[str, Part] = field(default_factory=dict)

    def map(self, event: QuestionAsked | QuestionResolved, run_id: str) -> Part:
        """The part as of this event."""
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
