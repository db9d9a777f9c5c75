from typing import Any

import pytest

from app.executors.messages_api.output_format import is_output_format

TEXT = {"type": "string"}
CLOSED = {"type": "object", "properties": {"a": TEXT}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "is_taken"),
    [
        (CLOSED, True),
        ({**CLOSED, "properties": {"a": {**TEXT, "minLength": 2}}}, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({"type": "array", "items": CLOSED}, False),
        ({}, False),
    ],
)
def test_only_schemas_that_the_official_client_leaves_as_they_are_are_taken(
    schema: dict[str, Any], *, is_taken: bool
) -> None:
    assert is_output_format(schema) is is_taken
