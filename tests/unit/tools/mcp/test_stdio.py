import asyncio
import sys
import time

import anyio
import psutil
import pytest
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCNotification

from app.tools.mcp.limits import ResponseLimit
from app.tools.mcp.spec import ContentLimits
from app.tools.mcp.stdio import bounded_stdio
from tests.log_lines import written_log
from tests.patience import PATIENCE_S

LIMIT = ResponseLimit.of_results(ContentLimits(1000, 0))
PROGRAM = """
import sys
for number in range(200):
    print(f"\\x1b[2J {number}", file=sys.stderr)
print("x" * 1_000_000, file=sys.stderr)
sys.stdin.read()
"""


async def test_what_a_program_writes_to_standard_error_is_logged_in_part_and_cleaned() -> None:
    with written_log() as written:
        async with (
            bounded_stdio([sys.executable, "-c", PROGRAM], {}, limit=LIMIT, server="shop", write_s=5),
            asyncio.timeout(PATIENCE_S),
        ):
            while len(written.getvalue().splitlines()) < 20:
                await asyncio.sleep(0.01)

    lines = written.of("mcp_server.stderr")
    (dropped,) = written.of("mcp_server.stderr_dropped")
    assert [line["text"] for line in lines[:2]] == ["[2J 0", "[2J 1"]
    assert {line["server"] for line in lines} == {"shop"}
    assert len(lines) == 20
    assert dropped["lines"] > 0


FLOOD = """
import sys
for _ in range(160):
    sys.stderr.buffer.write(b"\\n" * 65_536)
sys.stderr.flush()
print("[]", flush=True)
sys.stdin.read()
"""


async def test_a_flood_of_lines_on_standard_error_takes_no_time() -> None:
    began = time.thread_time()
    with written_log() as written:
        async with (
            bounded_stdio(
                [sys.executable, "-c", FLOOD], {}, limit=LIMIT, server="shop", write_s=5
            ) as streams,
            asyncio.timeout(PATIENCE_S),
        ):
            await streams[0].receive()

    # Ten million lines, looked at one by one, take ten seconds.
    assert time.thread_time() - began < 2
    assert sum(line["lines"] for line in written.of("mcp_server.stderr_dropped")) > 9_000_000


DEAF = "import time; time.sleep(1000)"


async def test_a_program_that_reads_nothing_more_has_no_connection_any_more() -> None:
    message = JSONRPCNotification(jsonrpc="2.0", method="x" * 1_000_000)
    async with (
        bounded_stdio([sys.executable, "-c", DEAF], {}, limit=LIMIT, server="shop", write_s=0.1) as streams,
        asyncio.timeout(PATIENCE_S),
    ):
        reading, writing = streams
        await writing.send(SessionMessage(message))
        with pytest.raises(anyio.EndOfStream):
            await reading.receive()


PARENT = """
import subprocess, sys
sleeping = "import time; time.sleep(1000)"
child = subprocess.Popen([sys.executable, "-c", sleeping], stdout=subprocess.DEVNULL)
print(child.pid, file=sys.stderr, flush=True)
sys.stdin.read()
"""


async def test_the_children_of_a_program_end_with_it() -> None:
    command = [sys.executable, "-c", PARENT]
    with written_log() as written:
        async with (
            bounded_stdio(command, {}, limit=LIMIT, server="shop", write_s=5),
            asyncio.timeout(PATIENCE_S),
        ):
            while not (lines := written.of("mcp_server.stderr")):
                await asyncio.sleep(0.01)
            child = psutil.Process(int(lines[0]["text"]))
            assert child.is_running()

    # Another process may have its number, or it is waited for by nobody.
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
