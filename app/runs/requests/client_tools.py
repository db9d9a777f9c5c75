"""Check of the tools that come with a request, before the run is accepted."""

from collections.abc import Sequence
from functools import partial

from app.errors import Invalid
from app.executors.tools.client_tools import shown_schema
from app.ids import AccountId
from app.platform.json_schema.checker import SchemaChecker
from app.platform.json_schema.document import SchemaUnusable
from app.requests.client_tools import ClientTool


async def check_client_tools(
    schemas: SchemaChecker, tools: Sequence[ClientTool], *, account_id: AccountId
) -> None:
    """Raise `Invalid` naming the first tool whose schema cannot be used."""
    for index, tool in enumerate(tools):
        if (error := await _fault(schemas, tool, account_id=account_id)) is not None:
            message = f"is not a JSON schema that can be used: {error.where} {error.reason}"
            field = f"clientTools.{index}.inputSchema"
            raise Invalid.field(field, message) from error


async def usable_client_tools(
    schemas: SchemaChecker, tools: Sequence[ClientTool], *, account_id: AccountId
) -> tuple[ClientTool, ...]:
    """Those whose schemas can be used."""
    return tuple([tool for tool in tools if await _fault(schemas, tool, account_id=account_id) is None])


async def _fault(schemas: SchemaChecker, tool: ClientTool, *, account_id: AccountId) -> SchemaUnusable | None:
    require_usable = partial(schemas.require_usable, owner=str(account_id))
    try:
        await require_usable(tool.input_schema)
        # What the model gets is checked as well: it must be a valid schema on its own.
        await require_usable(shown_schema(tool.input_schema))
    except SchemaUnusable as error:
        return error
    return None
