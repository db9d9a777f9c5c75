import pytest

from app.requests.blank import is_blank
from tests.blank_texts import BLANK_TEXTS


@pytest.mark.parametrize("text", BLANK_TEXTS)
def test_a_text_without_a_visible_character_is_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize(
    "text", [".", " a ", "\u200b\u4f60", "\U0001f469\u200d\U0001f4bb", "\u0301", "\ue000"]
)
def test_whatever_else_a_text_has_it_is_not_blank(text: str) -> None:
    assert not is_blank(text)
