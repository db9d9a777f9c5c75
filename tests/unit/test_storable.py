import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storable import MAX_DEPTH, MAX_IDENTIFIER_CHARS, identifier, is_storable, storable

TEXTS = st.text(st.characters(categories=["Cs"]) | st.sampled_from("aé\0\U0001f600"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


@dataclass(frozen=True)
class Block:
    text: str
    inner: Any = None


@given(VALUES)
def test_any_value_becomes_storable(value: Any) -> None:
    kept = json.dumps(storable(value), allow_nan=False)

    assert r"\u0000" not in kept
    json.loads(kept)
    kept.encode()


@given(TEXTS)
def test_each_character_is_replaced_by_one(text: str) -> None:
    kept = storable(text)

    assert len(kept) == len(text)
    assert is_storable(kept)
    assert all(new in {old, "\ufffd"} for new, old in zip(kept, text, strict=True))


def test_storable_values_are_not_copied() -> None:
    value = {"a": ["b", 1.5, None, ("c",)], "d": Block("e")}

    assert storable(value) is value


def test_fields_of_data_classes_are_replaced() -> None:
    assert storable([Block("a\0", {"x": Block("\ud800")})]) == [Block("a\ufffd", {"x": Block("\ufffd")})]


def test_nesting_is_limited() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    kept, depth = storable(deep), 0
    while isinstance(kept, list):
        kept, depth = kept[0], depth + 1
    assert (depth, kept) == (MAX_DEPTH, "\ufffd")


@pytest.mark.parametrize("name", ["msg_01", "claude-sonnet-5-5", "x" * MAX_IDENTIFIER_CHARS])
def test_a_valid_name_is_unchanged(name: str) -> None:
    assert identifier(name) == name


@given(st.text(st.characters(categories=["Cs"]) | st.characters(), max_size=300))
def test_any_name_becomes_short_printable_ascii(name: str) -> None:
    kept = identifier(name)

    assert 0 < len(kept) <= MAX_IDENTIFIER_CHARS
    assert kept.isascii()
    assert kept.isprintable()
    assert " " not in kept
    assert identifier(kept) == kept


def test_shortened_names_stay_different_and_keep_their_beginning() -> None:
    long = [identifier(f"msg_{'x' * 1_000_000}{end}") for end in "ab"]

    assert long[0] != long[1]
    assert long[0].startswith("msg_xxx")
    assert identifier("msg_a b") != identifier("msg_a\nb")
