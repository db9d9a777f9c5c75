"""OpenAPI schemas of the native wire: every event as our clients receive it."""

from functools import cache
from typing import Any, Final, get_args

from app.events import CLIENT_EVENTS, ClientEvent
from app.http.openapi.document import server_sent

CLIENT_EVENT: Final = "ClientEvent"
AT: Final = "at"
_AT_SCHEMA: Final = {
    "type": "string",
    "format": "date-time",
    "title": "At",
    "description": "When it was produced; never before an earlier event of the run.",
}

STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Server-sent events. `id` is the position, `event` the type, `data` this as JSON.",
        "content": server_sent(CLIENT_EVENT),
    }
}
"""OpenAPI responses of routes that stream a run's events."""

NOTHING_MORE: Final[dict[int | str, dict[str, Any]]] = {
    204: {"description": "`Last-Event-ID` names the run's last event: nothing will follow."}
}


@cache
def event_schemas() -> dict[str, Any]:
    """Schemas of all events by name, and their union as `ClientEvent`."""
    schema = CLIENT_EVENTS.json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    events: dict[str, Any] = schema.pop("$defs")
    for model in get_args(ClientEvent):
        required = events[model.__name__]["required"] = []
        for field in model.model_fields.values():
            # Fields with a default are always sent, except those with `exclude_if`.
            if field.exclude_if is None:
                required.append(field.serialization_alias)
            else:
                # Without a schema, it is not for clients.
                events[model.__name__]["properties"].get(field.serialization_alias, {}).pop("default", None)
        events[model.__name__]["properties"][AT] = _AT_SCHEMA
        required.append(AT)
    return {**events, CLIENT_EVENT: schema}
