import json
from typing import Any

import pytest

from app.platform.serialization.stored_json import dump_json, load_json
from app.storable import MAX_DEPTH, storable


def nested(levels: int) -> Any:
    value: Any = "]}"
    for level in range(levels):
        value = [value] if level % 2 else {"]": value}
    return value


@pytest.mark.parametrize(
    "value",
    [
        {"text": 'a "quoted" \\ text', "number": 1.5, "none": None, "many": [[]] * 200},
        [{"a]": "}" * 50}] * 200,
        *("\0", "\ud800", {"\ud800": "\0"}, "\U0001f600", "\\u0000", float("nan"), [float("-inf")]),
        *(nested(MAX_DEPTH), nested(MAX_DEPTH + 1), [nested(MAX_DEPTH)], [nested(MAX_DEPTH - 1), "]" * 200]),
        [{"]]]": "\\"}, nested(2 * MAX_DEPTH)],
    ],
)
def test_what_is_stored_is_storable_and_what_already_is_stays(value: Any) -> None:
    written = dump_json(value)

    assert written == json.dumps(storable(value), allow_nan=False)
    assert load_json(written) == json.loads(written)
    assert load_json(json.dumps(value)) == json.loads(written)
