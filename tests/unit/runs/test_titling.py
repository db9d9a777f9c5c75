"""The tag by which the receipts of titles are found."""

import pytest

from app.requests.attribution import MAX_TAGS
from app.runs.titling.service import with_purpose

FULL = {f"tag-{number}": "x" for number in range(MAX_TAGS)}


@pytest.mark.parametrize(
    ("tags", "of_the_title"),
    [
        (None, {"purpose": "title"}),
        ({"team": "birds"}, {"team": "birds", "purpose": "title"}),
        # A client's own meaning of the name, and no room for another one.
        ({"purpose": "support"}, {"purpose": "support"}),
        (FULL, FULL),
    ],
)
def test_a_title_has_the_tags_of_its_conversation_and_one_of_its_own(
    tags: dict[str, str] | None, of_the_title: dict[str, str]
) -> None:
    assert with_purpose(tags) == of_the_title
