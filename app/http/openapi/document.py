"""DocumentedApp: FastAPI with a completed OpenAPI document."""

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import anyio
import yaml
from fastapi import FastAPI

from app.http.openapi.headers import HEADERS, add_headers
from app.http.openapi.portable import make_portable
from app.http.parameters import drop_null
from app.http.problems import ERRORS, MEDIA_TYPE
from app.platform.serialization.shipped import shipped_texts

_EXAMPLES: Final = "app/http/openapi/examples.yaml"
_OF_EVENTS: Final = ("events", "retry", "first_id")
EVENT_SCHEMA: Final = "x-event-schema"
LINE_SCHEMA: Final = "x-line-schema"
"""The schema of the JSON in each `data` of an event stream."""

_PROBLEM: Final = {"$ref": "#/components/schemas/Problem"}
"""Some wires have errors of their own."""

_NULL: Final = {"type": "null"}


def server_sent(name: str) -> dict[str, Any]:
    """OpenAPI content of an event stream whose `data` is JSON of this schema.

    OpenAPI 3.1 cannot describe the events of a stream: for programs its content is text.
    """
    reference = f"#/components/schemas/{name}"
    schema = {"type": "string", "description": f"Server-sent events; each `data` is JSON of `{name}`."}
    return {"text/event-stream": {"schema": schema, EVENT_SCHEMA: {"$ref": reference}}}


def json_lines(media_type: str, name: str, *, example: str | None = None) -> dict[str, Any]:
    """OpenAPI content of lines that are JSON of this schema, which OpenAPI 3.1 cannot describe either."""
    schema = {"type": "string", "description": f"Lines; each is JSON of `{name}`."}
    shown = {} if example is None else {"example": example}
    return {media_type: {"schema": schema, LINE_SCHEMA: {"$ref": f"#/components/schemas/{name}"}, **shown}}


class DocumentedApp(FastAPI):
    """Adds event schemas, examples and the media type of errors to the document."""

    def __init__(self, *, wire_schemas: Sequence[Callable[[], dict[str, Any]]], **options: Any) -> None:
        """`wire_schemas` make component schemas of streamed events, by name."""
        # Our own route serves the document: it is built once, off the event loop.
        super().__init__(openapi_url=None, **options)
        self._wire_schemas = wire_schemas
        self._text: bytes | None = None
        self._lock = asyncio.Lock()

    async def document(self) -> bytes:
        async with self._lock:
            if self._text is None:
                self._text = await anyio.to_thread.run_sync(self._dump)
            return self._text

    def _dump(self) -> bytes:
        return _compact(self.openapi()).encode()

    def openapi(self) -> dict[str, Any]:
        made = self.openapi_schema is not None
        document = super().openapi()
        if not made:
            for schemas in self._wire_schemas:
                document["components"]["schemas"] |= schemas()
            document["components"]["headers"] = HEADERS
            for path in document["paths"].values():
                for operation in path.values():
                    _complete_operation(operation)
                    add_headers(operation)
            make_portable(document)
        return document


@cache
def examples() -> dict[str, dict[str, Any]]:
    """By operation id: examples of its `request`, its `response`, or its event `stream`."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(shipped_texts(_EXAMPLES)[_EXAMPLES])
    for example in found.values():
        if "page" in example:
            example["response"] = {"items": example.pop("page"), "nextCursor": None}
        if "events" in example:
            example["stream"] = _sent(**{name: example.pop(name, None) for name in _OF_EVENTS})
    return found


def _sent(events: Sequence[Any], retry: int | None, first_id: int | None) -> str:
    """An event stream as text; with `first_id` each event has an id, and its type as its name."""
    text = "" if retry is None else f"retry: {retry}\n"
    for place, event in enumerate(events):
        if first_id is not None:
            text += f"id: {first_id + place}\nevent: {event['type']}\n"
        text += f"data: {event if isinstance(event, str) else _compact(event)}\n\n"
    return text


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _complete_operation(operation: dict[str, Any]) -> None:
    example = examples().get(operation["operationId"], {})
    for parameter in operation.get("parameters", ()):
        # Optional parameters of URLs and headers can be omitted but never null.
        if _NULL in parameter["schema"].get("anyOf", ()):
            drop_null(parameter["schema"])
    _name_problems(operation)
    if "request" in example:
        bodies = operation["requestBody"]["content"]
        content = bodies.get("application/json") or bodies["application/x-www-form-urlencoded"]
        content["example"] = example["request"]
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            for media_type, content in response.get("content", {}).items():
                _add_example(content, media_type, example)


def _name_problems(operation: dict[str, Any]) -> None:
    """Give errors their media type; those of a foreign wire may have another form."""
    for status in ERRORS:
        content = operation["responses"][status]["content"]
        if content["application/json"]["schema"] == _PROBLEM:
            content[MEDIA_TYPE] = content.pop("application/json")


def _add_example(content: dict[str, Any], media_type: str, example: dict[str, Any]) -> None:
    if media_type == "application/json" and "response" in example:
        content["example"] = example["response"]
    elif media_type != "application/json" and "stream" in example:
        content["example"] = example["stream"]
