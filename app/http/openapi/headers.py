"""Headers of responses in the OpenAPI document."""

from typing import Any, Final


def _text(description: str, example: str | None = None, **schema: Any) -> dict[str, Any]:
    shown = {} if example is None else {"example": example}
    return {"description": description, "schema": {"type": "string", **schema}, **shown}


HEADERS: Final[dict[str, dict[str, Any]]] = {
    "X-Request-ID": _text("The id of the request, which the server's log contains."),
    "Retry-After": _text("Seconds to wait; with 429 and 503.", type="integer", minimum=1),
    "RateLimit": _text("What is left of a limit, and when there will be more.", '"runs";r=0;t=5'),
    "RateLimit-Policy": _text("The limit that was exceeded.", '"runs";q=100'),
    "Location": _text("Where the created resource is.", format="uri-reference"),
    "Content-Disposition": _text("The name of the file.", "attachment; filename*=UTF-8''report.txt"),
    "Runtally-Ignored": _text("The parameters of the request that have no effect.", "seed, temperature"),
    "Mcp-Session-Id": _text(
        "The id of the session that was begun, in revisions of the protocol with sessions.",
        "5f0d6c8e3b1a4d7c9e2f4a6b8c0d2e4f-forms",
    ),
    "Runtally-As-Of": _text(
        "What was stored until then is included; left out: everything, until now.", format="date-time"
    ),
    "Runtally-Budget-Reached": _text("The ids of soft budgets that are used up.", "team-search, per-user"),
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
