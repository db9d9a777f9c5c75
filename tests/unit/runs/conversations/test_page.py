import pytest

from app.errors import Invalid
from app.runs.conversations.page import parse_cursor


@pytest.mark.parametrize(
    ("cursor", "position"), [(None, 0), ("0", 0), ("41", 41), (str(2**63 - 1), 2**63 - 1)]
)
def test_a_cursor_is_the_position_before_a_page(cursor: str | None, position: int) -> None:
    assert parse_cursor(cursor) == position


@pytest.mark.parametrize("cursor", ["", "-1", "1.5", "one", "٣", " 1", str(2**63), "1" * 5000])
def test_anything_else_is_refused_by_name(cursor: str) -> None:
    with pytest.raises(Invalid) as error:
        parse_cursor(cursor)
    assert [field.field for field in error.value.errors] == ["cursor"]
