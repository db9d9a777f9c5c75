"""JSON texts of values with long strings."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.platform.concurrency.offload import SMALL_BYTES
from app.platform.serialization.large_json import dumps, parsing_size

PLAIN = st.text(st.characters(exclude_categories=["Cs"]))
LONG = st.builds(lambda text, times: text * times, PLAIN.filter(bool), st.integers(1, 3000))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | PLAIN | LONG,
    lambda each: st.lists(each, max_size=4) | st.dictionaries(PLAIN, each, max_size=4),
    max_leaves=8,
)


@given(VALUES, st.booleans())
def test_the_text_is_the_json_of_the_value(value: Any, ascii_only: bool) -> None:  # noqa: FBT001
    text = dumps(value, ascii_only=ascii_only)

    assert text == json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))


@pytest.mark.parametrize("text", ["a" * 262_144, "é\0\u2028" * 100_000, '\\"' * 200_000, "😀" * 262_145])
def test_a_long_string_is_written_in_chunks(text: str) -> None:
    for ascii_only in (True, False):
        assert json.loads(dumps({"a": [text, "b", text]}, ascii_only=ascii_only)) == {"a": [text, "b", text]}


def test_text_takes_less_to_parse_than_as_many_bytes_of_small_values() -> None:
    text, values = json.dumps(["a" * 100_000]).encode(), b"[%s0]" % (b"{}," * 33_333)

    assert parsing_size(text) < SMALL_BYTES < len(values) < parsing_size(values)
