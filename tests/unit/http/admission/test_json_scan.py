import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Invalid
from app.http.admission.json_scan import JsonScanner
from app.http.admission.strict_json import MAX_DEPTH, MAX_VALUES

documents = st.recursive(
    st.none() | st.integers() | st.text() | st.text('[]{},"\\x'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def scan(text: bytes, *, piece: int = 1000) -> None:
    """Feed a text in pieces."""
    counting = JsonScanner()
    for start in range(0, len(text), piece):
        counting.feed(text[start : start + piece])


@given(documents, st.integers(1, 9))
def test_ordinary_json_passes_in_any_pieces(document: Any, piece: int) -> None:
    scan(json.dumps(document).encode(), piece=piece)


def levels(value: Any) -> int:
    """How deeply a document is nested."""
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(levels, inner), default=0) if isinstance(value, dict | list) else 0


@given(documents, st.integers(1, 9), st.booleans())
def test_the_deepest_value_decides(document: Any, piece: int, ascii_only: bool) -> None:  # noqa: FBT001
    room, text = MAX_DEPTH - levels(document), json.dumps(document, ensure_ascii=ascii_only)

    scan(("[" * room + text + "]" * room).encode("utf-8", "surrogatepass"), piece=piece)
    with pytest.raises(Invalid):
        scan(("[" * (room + 1) + text + "]" * (room + 1)).encode("utf-8", "surrogatepass"), piece=piece)


@given(st.text(alphabet='[]{},"\\x'), st.integers(1, 9))
def test_contents_of_strings_are_not_counted(text: str, piece: int) -> None:
    deep = json.dumps([text * 100, "," * 1000]).encode()

    scan(deep, piece=piece)
    with pytest.raises(Invalid):
        scan(deep + b"[" * (MAX_DEPTH + 1), piece=piece)


@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_levels_are_counted(piece: int) -> None:
    scan((b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) * 3, piece=piece)

    with pytest.raises(Invalid, match="nested deeper than 64 levels"):
        scan(b'{"a":' * (MAX_DEPTH + 1), piece=piece)


@pytest.mark.parametrize("value", ["[]", "{}", "0", '"x"', '{"a":0}'])
def test_too_many_values_are_detected_early(value: str) -> None:
    scan(("[" + ",".join([value] * (MAX_VALUES // 2 - 1)) + "]").encode())
    endless = JsonScanner()

    piece = (value + ",") * MAX_VALUES

    with pytest.raises(Invalid, match="holds more than 100000 values"):
        endless.feed(f"[{piece}{piece}{piece}".encode())


@pytest.mark.parametrize("endless", ['""', '"\\n"', '"a":', "]", "}"])
def test_endless_input_is_rejected_early(endless: str) -> None:
    with pytest.raises(Invalid):
        scan((endless * (2 * MAX_VALUES + 2)).encode())


def test_a_text_with_many_escapes_is_scanned_quickly() -> None:
    scan(b'"' + b'\\"' * 1_000_000 + b'"', piece=16_384)


def test_an_escape_may_span_two_pieces() -> None:
    counting = JsonScanner()
    counting.feed(b'["\\')
    counting.feed(b"")
    counting.feed(b'"' + b"[" * 100 + b'"]')
