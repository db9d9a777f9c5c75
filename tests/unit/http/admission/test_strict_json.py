import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Invalid
from app.http.admission.strict_json import MAX_DEPTH, MAX_VALUES, read_json

storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
scalars = (
    st.none() | st.booleans() | st.integers() | storable | st.floats(allow_nan=False, allow_infinity=False)
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(storable, inner), max_leaves=20
)


@given(documents, st.booleans())
def test_ordinary_json_passes(document: Any, ascii_only: bool) -> None:  # noqa: FBT001
    read_json(json.dumps(document, ensure_ascii=ascii_only).encode())


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        (b'{"a": 1, "a": 1}', "a", "is given twice"),
        (b'{"x": [{"role": 1, "role": 2}]}', "role", "is given twice"),
        (b'{"a": NaN}', "body", "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "body", "-Infinity is not a JSON number"),
        (b'{"a": 1e999}', "body", "holds a number that is too large"),
        (b'"\\u0000"', "body", "contains U+0000 or an unpaired surrogate"),
        (b'{"a": [1, {"b": "x\\u0000"}]}', "a.1.b", "contains U+0000 or an unpaired surrogate"),
        (b'{"a": ["\\ud83d"]}', "a.0", "contains U+0000 or an unpaired surrogate"),
        (b'{"a": {"\\udc00": 1}}', "a", "has a name with U+0000 or an unpaired surrogate"),
        (b'{"\\u0000": 1, "\\u0000": 1}', "body", "is given twice"),
    ],
)
def test_ambiguous_json_is_rejected_with_its_path(body: bytes, field: str, message: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_json(body)

    (error,) = refused.value.errors
    assert (error.field, error.message) == (field, message)


def test_a_complete_surrogate_pair_is_accepted() -> None:
    read_json(b'"\\ud83d\\ude00"')


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32-be"])
def test_other_encodings_are_refused_before_they_are_parsed(encoding: str) -> None:
    with pytest.raises(ValueError, match=r"decode|Expecting"):
        read_json(json.dumps([1, "∀"], ensure_ascii=False).encode(encoding))


def test_nesting_is_limited() -> None:
    read_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)

    with pytest.raises(Invalid, match="nested deeper than 64 levels"):
        read_json(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))


def test_the_number_of_values_is_limited() -> None:
    read_json(json.dumps([[0] * (MAX_VALUES - 1)]).encode())

    for many in ([0] * (MAX_VALUES + 1), [[0]] * MAX_VALUES):
        with pytest.raises(Invalid, match="holds more than 100000 values"):
            read_json(json.dumps(many).encode())


def test_many_names_are_parsed_quickly() -> None:
    names = ",".join(f'"{number}":0' for number in range(100_000))
    started = time.thread_time()

    with pytest.raises(Invalid):
        read_json(f'{{{names},"99999":0}}'.encode())

    assert time.thread_time() - started < 5
