import json
from typing import Any

import pytest

from app.events import AssistantFinal
from app.executors.port import ExecutionFailed
from app.executors.structured_output import require_match
from app.ids import AccountId, new_uuid
from app.platform.json_schema.checker import SchemaChecker
from tests.unit.platform.json_schema.schemas import a_bomb, model_schema_of

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def judge(structured: object, schema: dict[str, Any]) -> AssistantFinal:
    final = AssistantFinal(content="", structured_output=structured)
    wanted = model_schema_of(schema)
    async with SchemaChecker(workers=1, check_s=1) as schemas:
        return await require_match(schemas, final, wanted, account_id=AccountId(new_uuid()))


@pytest.mark.parametrize("structured", [None, {}, {"n": "one"}, []])
async def test_a_structured_answer_must_match_its_schema(structured: object) -> None:
    with pytest.raises(ExecutionFailed):
        await judge(structured, SCHEMA)


async def test_a_structured_answer_that_matches_is_accepted() -> None:
    await judge({"n": 1}, SCHEMA)


@pytest.mark.parametrize(("value", "schema"), [([1], {"type": "array"}), (None, {"type": "null"})])
async def test_an_answer_that_is_no_object_is_taken_out_of_one(value: object, schema: dict[str, Any]) -> None:
    final = await judge({"value": value}, schema)

    assert (json.loads(final.content), final.structured_output) == (value, value)
    for other in ({}, None, {"value": "x"}):
        with pytest.raises(ExecutionFailed):
            await judge(other, schema)


async def test_an_answer_that_cannot_be_checked_in_time_is_none() -> None:
    with pytest.raises(ExecutionFailed):
        await judge({"n": 1}, a_bomb())
