"""Every pattern that an input is checked with has words."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from app.platform.serialization.mistakes import problem_of
from app.platform.serialization.pattern_words import PATTERN_WORDS
from tests.library_words import shown_words

APP = Path(__file__).parents[4] / "app"


def patterns_of(path: Path) -> Iterator[str]:
    """Those that a module gives to pydantic."""
    tree = ast.parse(path.read_text("utf-8"))
    given = [
        keyword.value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg == "pattern"
    ]
    if given:
        module = import_module(".".join(path.relative_to(APP.parent).with_suffix("").parts))
        for value in given:
            yield eval(ast.unparse(value), vars(module))  # noqa: S307


def test_every_pattern_has_words_and_no_other_has() -> None:
    used = {pattern for path in APP.rglob("*.py") for pattern in patterns_of(path)}

    assert used == set(PATTERN_WORDS)


@pytest.mark.parametrize("pattern", PATTERN_WORDS)
def test_a_refusal_does_not_show_the_pattern(pattern: str) -> None:
    detail = {"type": "string_pattern_mismatch", "loc": ("field",), "ctx": {"pattern": pattern}}

    sentence = problem_of(detail)

    assert sentence.startswith("must ")
    assert "^" not in sentence
    assert shown_words(sentence) == set()


def test_a_pattern_of_a_tools_author_is_shown_as_it_is() -> None:
    detail = {"type": "string_pattern_mismatch", "loc": ("field",), "ctx": {"pattern": "^{a}$"}}

    assert problem_of(detail) == "must match the pattern ^{a}$"
