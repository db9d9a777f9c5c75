from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.errors import Invalid
from app.ids import AccountId, new_uuid
from app.platform.json_schema.checker import SchemaChecker
from app.runs.requests.response_schema import check_response_schema

OWNER = AccountId(new_uuid())
UNUSABLE = "is not a JSON schema that can be used: "


@pytest.fixture
async def schemas() -> AsyncIterator[SchemaChecker]:
    async with SchemaChecker(workers=1, check_s=5.0) as checker:
        yield checker


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"$ref": "#"}, UNUSABLE),
        ({"type": "object", "description": "x" * 100_000}, UNUSABLE),
        ({"type": "object", "properties": 3}, UNUSABLE),
        ({"type": "object", "$ref": "https://example.org/x"}, UNUSABLE),
    ],
)
async def test_a_schema_that_cannot_be_used_is_refused_by_name(
    schemas: SchemaChecker, schema: dict[str, Any], problem: str
) -> None:
    with pytest.raises(Invalid) as error:
        await check_response_schema(schemas, schema, field="schema", account_id=OWNER)

    (field,) = error.value.errors
    assert field.field == "schema"
    assert field.message.startswith(problem)


@pytest.mark.parametrize("schema", [{}, {"type": "array"}, {"anyOf": [{"type": "object"}]}])
async def test_a_schema_of_anything_is_accepted(schemas: SchemaChecker, schema: dict[str, Any]) -> None:
    await check_response_schema(schemas, schema, field="schema", account_id=OWNER)


async def test_a_schema_of_an_object_is_accepted(schemas: SchemaChecker) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    await check_response_schema(schemas, schema, field="schema", account_id=OWNER)
    assert await schemas.mismatch(schema, {"n": "1"}, owner=str(OWNER)) is not None
