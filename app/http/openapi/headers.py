"""Headers of responses in the OpenAPI document."""

from typing import Any, Final

HEADERS: Final[dict[str, dict[str, Any]]] = {
    "X-Request-ID": {
        "description": "The id of the request, which the server's log contains.",
        "schema": {"type": "string"},
    },
    "Retry-After": {
        "description": "Seconds to wait; with 429 and 503.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "RateLimit": {
        "description": "What is left of a limit, and when there will be more.",
        "schema": {"type": "string"},
        "example": '"runs";r=0;t=5',
    },
    "RateLimit-Policy": {
        "description": "The limit that was exceeded.",
        "schema": {"type": "string"},
        "example": '"runs";q=100',
    },
    "Location": {
        "description": "Where the created resource is.",
        "schema": {"type": "string", "format": "uri-reference"},
    },
    "Content-Disposition": {
        "description": "The name of the file.",
        "schema": {"type": "string"},
        "example": "attachment; filename*=UTF-8''report.txt",
    },
    "Runtally-Ignored": {
        "description": "The parameters of the request that have no effect.",
        "schema": {"type": "string"},
        "example": "seed, temperature",
    },
    "Mcp-Session-Id": {
        "description": "The id of the session that was begun, in revisions of the protocol with sessions.",
        "schema": {"type": "string"},
        "example": "5f0d6c8e3b1a4d7c9e2f4a6b8c0d2e4f-forms",
    },
    "Runtally-As-Of": {
        "description": "What was stored until then is included; left out: everything, until now.",
        "schema": {"type": "string", "format": "date-time"},
    },
    "Runtally-Budget-Reached": {
        "description": "The ids of soft budgets that are used up.",
        "schema": {"type": "string"},
        "example": "team-search, per-user",
    },
}
"""The component headers of the document."""

_OF_EVERY_RESPONSE: Final = ("X-Request-ID",)
_OF_ERRORS: Final = ("Retry-After", "RateLimit", "RateLimit-Policy")


def header(*names: str) -> dict[str, Any]:
    """The part of a route's response that documents these headers."""
    return {"headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names}}


LOCATED: Final = header("Location")
STARTED: Final = header("Runtally-Budget-Reached")
ACCEPTED: Final = header("Location", "Runtally-Budget-Reached")
ATTACHED: Final = header("Content-Disposition")
EXPORTED: Final = header("Content-Disposition", "Runtally-As-Of")


def add_headers(operation: dict[str, Any]) -> None:
    for status, response in operation["responses"].items():
        names = _OF_EVERY_RESPONSE if status.startswith("2") else (*_OF_EVERY_RESPONSE, *_OF_ERRORS)
        for name in names:
            response.setdefault("headers", {}).update(header(name)["headers"])
