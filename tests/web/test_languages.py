"""The messages of the pages, in all languages, and the scripts that show them."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import pytest_asyncio

from app.events import QuestionResolvedBy, WarningCode
from app.requests.outcome import ErrorCode
from tests.clients.node import node

_ENGLISH = Path(__file__).parents[2] / "app" / "web" / "languages" / "en.ftl"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def problems() -> dict[str, list[str]]:
    """What `languages.mjs` has found, by kind."""
    found: dict[str, list[str]] = json.loads(await node("languages.mjs"))
    return found


@pytest.mark.parametrize("kind", ["messages", "uses", "words"])
async def test_languages_are_complete_and_scripts_have_no_words_of_their_own(
    problems: dict[str, list[str]], kind: str
) -> None:
    assert problems[kind] == []


@pytest.mark.parametrize(
    ("prefix", "codes"),
    [("warning", WarningCode), ("question", QuestionResolvedBy), ("run-failed", ErrorCode)],
)
def test_each_code_that_a_person_meets_has_words(prefix: str, codes: Any) -> None:
    have = set(re.findall(rf"^{prefix}-(\w+) =", _ENGLISH.read_text(encoding="utf-8"), re.MULTILINE))

    assert set(get_args(codes)) <= have
