from typing import Any

import pytest

from app.executors.messages_api.output_format import is_output_format

CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"color": {"type": "string"}},
    "required": ["color"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "is_taken"),
    [
        (CLOSED, True),
        ({**CLOSED, "additionalProperties": True}, False),
        ({**CLOSED, "properties": {"color": {"type": "string", "maxLength": 5}}}, False),
        ({"type": "string"}, False),
        ({"type": ["object"], "properties": 5}, False),
    ],
)
def test_only_a_part_of_json_schema_is_the_providers_format(
    schema: dict[str, Any], *, is_taken: bool
) -> None:
    assert is_output_format(schema) is is_taken
