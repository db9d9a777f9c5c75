"""Programs of MCP servers have ended when their run has, whatever interrupts their stopping."""

import asyncio
from collections.abc import Iterator

import psutil
import pytest

from app.platform.json_schema.checker import SchemaChecker
from tests.e2e.stories import until
from tests.integration.test_hostile_tool_servers import connected
from tests.integration.test_tool_servers_that_are_lost import Calls


@pytest.fixture(autouse=True)
def _no_program_is_left() -> Iterator[None]:
    yield
    for program in programs():
        program.kill()


def programs() -> list[psutil.Process]:
    """The programs that run."""
    children = psutil.Process().children()
    return [
        child
        for child in children
        if child.status() != psutil.STATUS_ZOMBIE and "tests.integration.hostile_program" in child.cmdline()
    ]


async def test_a_program_whose_connection_was_lost_ends_with_the_run(schemas: SchemaChecker) -> None:
    async with connected(schemas, "stays") as connections:
        calls = Calls(connections.tools)
        # Each closes its output, so the second call stops the first program, also if it began before that.
        pids = [(await calls.call("library__search")).markdown for _ in range(2)]
        running = {str(program.pid) for program in programs()}

    assert running == set(pids)
    assert programs() == []


async def connect(schemas: SchemaChecker, how: str) -> None:
    async with connected(schemas, how):
        pass


@pytest.mark.parametrize("how", ["stays silent", "stays without tools"])
async def test_a_program_ends_though_its_run_is_cancelled_twice(schemas: SchemaChecker, how: str) -> None:
    connecting = asyncio.create_task(connect(schemas, how))
    await until(lambda: bool(programs()))
    # Until it has answered the handshake, then while it is stopped.
    for _ in range(2):
        await asyncio.sleep(1)
        connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting

    assert programs() == []
