"""The locked packages can be installed and run."""

import pytest

from tests.clients.node import node


async def test_a_program_that_fails_says_why() -> None:
    with pytest.raises(AssertionError, match="no-such-program"):
        await node("no-such-program.mjs")
