from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.errors import Invalid
from app.ids import AccountId, new_uuid
from app.platform.json_schema.checker import SchemaChecker
from app.requests.client_tools import ClientTool
from app.runs.requests.client_tools import check_client_tools, usable_client_tools

OWNER = AccountId(new_uuid())
UNUSABLE: list[dict[str, Any]] = [
    {"type": "array"},
    {"type": "object", "properties": 3},
    {"$ref": "https://example.org/x"},
    {"properties": {"a": {"pattern": "("}}},
    {"type": "object", "properties": [1], "anyOf": [{}]},
    {"properties": {"a": {"maximum": float("inf")}}},
    # Without the alternatives, which no model takes, the reference has no target.
    {"anyOf": [{"properties": {"a": {"$ref": "#/anyOf/1/properties/b"}}}, {"properties": {"b": {}}}]},
]


@pytest.fixture
async def schemas() -> AsyncIterator[SchemaChecker]:
    async with SchemaChecker(workers=1, check_s=5.0) as checker:
        yield checker


def a_tool(name: str, schema: dict[str, Any] | None = None) -> ClientTool:
    return ClientTool(name=name, inputSchema=schema or {})


async def test_tools_that_cannot_be_used_are_named_or_left_out(schemas: SchemaChecker) -> None:
    good = a_tool("good", {"type": "object", "properties": {"n": {"type": "integer"}}})
    await check_client_tools(schemas, [good, a_tool("b")], account_id=OWNER)

    for schema in UNUSABLE:
        tools = [good, a_tool("bad", schema)]
        with pytest.raises(Invalid) as error:
            await check_client_tools(schemas, tools, account_id=OWNER)
        (field,) = error.value.errors
        assert field.field == "clientTools.1.inputSchema"
        assert await usable_client_tools(schemas, tools, account_id=OWNER) == (good,)
