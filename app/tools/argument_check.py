"""Checks the arguments of a call against the JSON schema of a tool that is not our own."""

from app.platform.json_schema.checker import SchemaChecker, ValueUncheckable
from app.platform.json_schema.document import SchemaDocument, SchemaUnusable
from runtally.tools.tool import ArgumentsRefused


async def check_arguments(
    schemas: SchemaChecker, schema: SchemaDocument, args: object, *, owner: str
) -> None:
    """Raise `ArgumentsRefused` unless the arguments match; `owner` shares the checker with others."""
    try:
        mismatch = await schemas.mismatch(schema, args, owner=owner)
    except (SchemaUnusable, ValueUncheckable) as error:
        raise ArgumentsRefused("", f"they cannot be checked: {error}") from error
    if mismatch is not None:
        raise ArgumentsRefused(".".join(mismatch.path), mismatch.reason)
