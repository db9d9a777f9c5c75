"""The OpenAPI document of this wire: JSON-RPC, of which the protocol itself is the reference."""

from typing import Any, Final

from app.http.mcp.errors import RpcError
from app.http.openapi.headers import header
from app.http.problems import ERRORS

ERROR_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {status: {"model": RpcError} for status in ERRORS}

_OPEN: Final = {"type": "object", "additionalProperties": True}
_STREAM: Final[dict[str, Any]] = {"text/event-stream": {}}
_MESSAGE: Final = {
    **_OPEN,
    "required": ["jsonrpc"],
    "properties": {
        "jsonrpc": {"const": "2.0", "type": "string"},
        "id": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "method": {"type": "string"},
        "params": _OPEN,
    },
}

MESSAGE_REQUEST: Final = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": _MESSAGE}}}
}
ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The response to a request; to a call, a stream of messages that ends with it.",
        **header("Mcp-Session-Id"),
        "content": {"application/json": {"schema": _OPEN}, **_STREAM},
    },
    202: {"description": "A notification, or an answer to a request of the server, was taken."},
}
RESUMED: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The rest of the stream.", "content": _STREAM}
}
