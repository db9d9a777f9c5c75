"""Validates a structured answer against the request's JSON schema."""

import json

import structlog

from app.errors import Unavailable
from app.events import AssistantFinal
from app.executors.port import ExecutionFailed
from app.ids import AccountId
from app.platform.json_schema.checker import SchemaChecker, ValueUncheckable
from app.platform.json_schema.document import SchemaUnusable
from app.platform.json_schema.model_schema import ModelSchema

log = structlog.get_logger(__name__)


async def require_match(
    schemas: SchemaChecker,
    final: AssistantFinal,
    answer_schema: ModelSchema | None,
    *,
    account_id: AccountId,
) -> AssistantFinal:
    """The answer as the schema describes it; raises `ExecutionFailed` unless it matches.

    Without a schema that is the answer itself.
    """
    if answer_schema is None:
        return final
    answer, is_given = answer_schema.answer(final.structured_output)
    if not is_given:
        raise ExecutionFailed("internal")
    try:
        mismatch = await schemas.mismatch(answer_schema.document, answer, owner=str(account_id))
    except (SchemaUnusable, ValueUncheckable, Unavailable) as error:
        log.warning("structured_output.unchecked", reason=str(error))
        raise ExecutionFailed("internal") from error
    if mismatch is not None:
        raise ExecutionFailed("internal")
    if not answer_schema.is_wrapped:
        return final
    content = json.dumps(answer, ensure_ascii=False)
    return final.model_copy(update={"content": content, "structured_output": answer})
