"""Errors in the form of JSON-RPC."""

from typing import Any, Final

from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, RequestId
from pydantic import BaseModel

from app.errors import AppError
from app.http.foreign_errors import ErrorForm, ForeignError

PATH: Final = "/mcp"

_CODES: Final = {"malformed_json": PARSE_ERROR}
_SERVER_ERROR: Final = 500
TOLD_TO_THE_MODEL: Final = frozenset({402, 409, 429})
"""Statuses of errors that are results of a call: its request is right, and the model can do otherwise."""


class RpcErrorDetails(BaseModel):
    """What went wrong; `data` has our own code, and the errors of fields."""

    code: int
    message: str
    data: Any = None


class RpcError(BaseModel):
    """An error; its id is that of the request, if that was read."""

    jsonrpc: str
    id: RequestId | None
    error: RpcErrorDetails


def error_json(message_id: RequestId | None, code: int, message: str, data: Any = None) -> dict[str, Any]:
    """An error as clients read it."""
    error = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return {"jsonrpc": "2.0", "id": message_id, "error": error}


def refusal_json(message_id: RequestId, error: AppError) -> dict[str, Any]:
    """The answer to a request that is refused."""
    data: dict[str, Any] = {"code": error.code}
    if error.errors:
        data["errors"] = [{"field": each.field, "message": each.message} for each in error.errors]
    return error_json(message_id, INVALID_PARAMS, error.detail, data)


class McpErrors(ErrorForm):
    """Answers with errors as clients of this wire read them."""

    paths = (PATH,)

    def translate(self, problem: dict[str, Any], headers: dict[bytes, bytes]) -> ForeignError:  # noqa: ARG002
        status = problem["status"]
        default = INTERNAL_ERROR if status >= _SERVER_ERROR else INVALID_REQUEST
        data = {name: problem[name] for name in ("code", "errors", "runId") if name in problem}
        error = error_json(None, _CODES.get(problem["code"], default), problem["detail"], data)
        return ForeignError(status, error, [])
