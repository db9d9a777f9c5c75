"""The messages of the pages, in all languages, and the scripts that show them."""

import json

import pytest
import pytest_asyncio

from tests.clients.node import node


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
