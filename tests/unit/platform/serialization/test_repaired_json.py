import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.platform.serialization.repaired_json import parsable

_UNITS = st.sampled_from(["\ud83d", "\ude00", "\udfff", "\\", '"', "\n", "u", "ud83d", "ude00", "x", "é"])
_TEXTS = st.lists(_UNITS, max_size=12).map("".join)


def repaired(text: str) -> str:
    """The text with its halves of characters joined, and with U+FFFD for those that have no other one."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@given(_TEXTS)
def test_halves_of_characters_are_replaced_and_nothing_else(text: str) -> None:
    written = parsable(json.dumps(text).encode())

    assert json.loads(written) == repaired(text)
    written.decode().encode("ascii")


def nested(value: object, levels: int) -> object:
    """The value in so many lists."""
    for _ in range(levels):
        value = [value]
    return value


@given(st.lists(_TEXTS, max_size=3), st.integers(140, 160))
def test_what_is_nested_too_deeply_is_replaced_and_strings_are_not_looked_into(
    texts: list[str], levels: int
) -> None:
    # In an object, with two more brackets in the value itself.
    value = {"[{": [*texts, "]" * 200]}
    written = json.dumps({"deep": nested(value, levels), "after": texts}).encode()
    texts = [repaired(text) for text in texts]
    kept: object = {"[{": [*texts, "]" * 200]} if levels < 148 else {"[{": "[nested too deeply]"}
    if levels > 148:
        kept = "[nested too deeply]"

    found = json.loads(parsable(written))

    assert found == {"deep": nested(kept, min(levels, 149)), "after": texts}


@pytest.mark.parametrize("part", [rb"\n", rb"\\", rb"\ud83d\ude00", rb"\"", rb"\ud83d"])
def test_the_escapes_of_a_string_take_one_pass(part: bytes) -> None:
    began = time.process_time()

    parsable(b'"' + part * (3_000_000 // len(part)) + b'"')

    assert time.process_time() - began < 5


@pytest.mark.parametrize("part", [b'""', rb'"\"', b'"', b"x", rb"\"", b"[]", b"}"])
def test_looking_for_levels_takes_one_pass(part: bytes) -> None:
    began = time.process_time()

    parsable(b"[" * 151 + part * (1_000_000 // len(part)))

    # Going back for each quotation mark would take minutes.
    assert time.process_time() - began < 5
