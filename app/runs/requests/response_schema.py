"""Check of the JSON schema in a request's `responseFormat`, before the run is accepted."""

from typing import Any

from app.errors import Invalid
from app.ids import AccountId
from app.platform.json_schema.checker import SchemaChecker
from app.platform.json_schema.document import SchemaUnusable
from app.platform.json_schema.model_schema import model_schema


async def check_response_schema(
    schemas: SchemaChecker, schema: dict[str, Any], *, field: str, account_id: AccountId
) -> None:
    """Raise `Invalid` naming the field unless this is a usable schema that has a model schema."""
    try:
        await schemas.require_usable(schema, owner=str(account_id))
        model_schema(schema)
    except SchemaUnusable as error:
        message = f"is not a JSON schema that can be used: {error.where} {error.reason}"
        raise Invalid.field(field, message) from error
