"""How the part of a run starts that one AG-UI run covers."""

import pytest

from app.errors import Unavailable
from app.http.ag_ui.segment import read_unless_away
from app.runs.conversations.view import ConversationView
from tests.unit.runs.conversations.test_view import VIEW
from tests.virtual_time import in_virtual_time


@pytest.mark.parametrize(("outages", "found"), [(0, VIEW), (1, VIEW), (9, None)])
@in_virtual_time
async def test_a_database_that_is_away_for_a_moment_ends_no_stream(
    outages: int, found: ConversationView | None
) -> None:
    left = outages

    async def read() -> ConversationView:
        nonlocal left
        left -= 1
        if left >= 0:
            raise Unavailable
        return VIEW

    assert await read_unless_away(read) is found
