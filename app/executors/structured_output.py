"""Validates a structured answer against the request's JSON schema."""

import structlog

from app.errors import Unavailable
from app.events import AssistantFinal
from app.executors.port import ExecutionFailed
from app.ids import AccountId
from app.json_schema.checker import SchemaChecker, ValueUncheckable
from app.json_schema.document import SchemaUnusable
from app.requests import ResponseFormat

log = structlog.get_logger(__name__)


async def require_match(
    schemas: SchemaChecker,
    final: AssistantFinal,
    response_format: ResponseFormat | None,
    *,
    account_id: AccountId,
) -> None:
    """Raise `ExecutionFailed` unless the structured output matches, if a response format was requested."""
    if response_format is None:
        return
    if final.structured_output is None:
        raise ExecutionFailed("internal")
    try:
        mismatch = await schemas.mismatch(
            response_format.schema_, final.structured_output, owner=str(account_id)
        )
    except (SchemaUnusable, ValueUncheckable, Unavailable) as error:
        log.warning("structured_output.unchecked", reason=str(error))
        raise ExecutionFailed("internal") from error
    if mismatch is not None:
        raise ExecutionFailed("internal")
