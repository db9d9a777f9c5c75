import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.mcp.limits import count_values

_JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=30,
)


def held(value: object) -> int:
    """The separators and containers of a value."""
    match value:
        case list() as items:
            return 1 + max(0, len(items) - 1) + sum(map(held, items))
        case dict() as members:
            return 1 + max(0, len(members) - 1) + sum(map(held, members.values()))
        case _:
            return 0


@given(_JSON, st.booleans())
def test_what_strings_hold_does_not_count(value: object, ascii_only: bool) -> None:  # noqa: FBT001
    assert count_values(json.dumps(value, ensure_ascii=ascii_only).encode()) == held(value)


@pytest.mark.parametrize("opening", [b': "\n', b': "\r', b': "\\\n', b': "\r\n'])
def test_a_string_that_does_not_end_hides_nothing_of_the_next_line(opening: bytes) -> None:
    assert count_values(opening + b"data: [[[") == 3


@pytest.mark.parametrize("part", [b'"\\', b'"', b'\\"', b'"",', b'"\\\n', b"[],"])
def test_counting_takes_one_pass(part: bytes) -> None:
    began = time.process_time()

    count_values(part * (1_000_000 // len(part)))

    # Going back for each quotation mark would take minutes.
    assert time.process_time() - began < 5
