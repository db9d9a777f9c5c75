"""The OpenAPI document: what the framework finds by itself, and what it cannot see."""

import asyncio
import json
from functools import cache
from importlib.resources import files
from typing import Any, Final, get_args

import anyio
import yaml
from fastapi import FastAPI

from app.events import CLIENT_EVENTS, ClientEvent
from app.http.parameters import without_null
from app.http.problems import MEDIA_TYPE

ERRORS: Final = ("4XX", "5XX")
CLIENT_EVENT: Final = "ClientEvent"
_NULL: Final = {"type": "null"}


def server_sent(name: str) -> dict[str, Any]:
    """The content of a response that streams events whose data are JSON of this schema."""
    data = {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": {"$ref": f"#/components/schemas/{name}"},
    }
    fields = {"data": data, **{field: {"type": "string"} for field in ("event", "id", "retry")}}
    return {"text/event-stream": {"schema": {"type": "object", "properties": fields}}}


STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Server-sent events. `id` is the position, `event` the type, `data` this as JSON.",
        "content": server_sent(CLIENT_EVENT),
    }
}
"""The responses of a route that streams a run's events as they are."""


class DocumentedApp(FastAPI):
    """An app whose document also holds what streams say, examples, and errors as they are."""

    def __init__(self, *, wire_schemas: dict[str, Any], **options: Any) -> None:
        """`wire_schemas`: by name, the schemas of what other wires than ours stream."""
        # The document has a route of ours: it is made once and not on the loop.
        super().__init__(openapi_url=None, **options)
        self._wire_schemas = wire_schemas
        self._text: bytes | None = None
        self._making = asyncio.Lock()

    async def document(self) -> bytes:
        """The OpenAPI document as JSON."""
        async with self._making:
            if self._text is None:
                self._text = await anyio.to_thread.run_sync(self._dumped)
            return self._text

    def _dumped(self) -> bytes:
        return json.dumps(self.openapi(), ensure_ascii=False, separators=(",", ":")).encode()

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        made = self.openapi_schema is not None
        document = super().openapi()
        if not made:
            document["components"]["schemas"] |= {**event_schemas(), **self._wire_schemas}
            for path in document["paths"].values():
                for operation in path.values():
                    _describe(operation)
        return document


@cache
def event_schemas() -> dict[str, Any]:
    """The schema of each event by name, and of all of them as `ClientEvent`."""
    schema = CLIENT_EVENTS.json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    events: dict[str, Any] = schema.pop("$defs")
    for model in get_args(ClientEvent):
        required = events[model.__name__]["required"] = []
        for field in model.model_fields.values():
            # What has a default is sent all the same, and what may be left out says so itself.
            if field.exclude_if is None:
                required.append(field.serialization_alias)
            else:
                del events[model.__name__]["properties"][field.serialization_alias]["default"]
    return {**events, CLIENT_EVENT: schema}


@cache
def examples() -> dict[str, dict[str, Any]]:
    """By operation: an example of its `request`, of its `answer`, or of what it `streams`."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(
        files("app.http").joinpath("examples.yaml").read_text("utf-8")
    )
    return found


def _describe(operation: dict[str, Any]) -> None:
    example = examples().get(operation["operationId"], {})
    for parameter in operation.get("parameters", ()):
        # What may be left out of a URL or a header is never null there.
        if _NULL in parameter["schema"].get("anyOf", ()):
            without_null(parameter["schema"])
    for status in ERRORS:
        content = operation["responses"][status]["content"]
        content[MEDIA_TYPE] = content.pop("application/json")
    if "request" in example:
        operation["requestBody"]["content"]["application/json"]["example"] = example["request"]
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            for media_type, content in response.get("content", {}).items():
                _exemplify(content, media_type, example)


def _exemplify(content: dict[str, Any], media_type: str, example: dict[str, Any]) -> None:
    if media_type == "application/json" and "answer" in example:
        content["example"] = example["answer"]
    elif media_type != "application/json" and "streams" in example:
        content["example"] = example["streams"]
