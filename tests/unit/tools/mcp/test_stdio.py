import asyncio
import sys

from app.tools.mcp.content import ContentLimits
from app.tools.mcp.limits import ResponseLimit
from app.tools.mcp.stdio import bounded_stdio
from tests.log_lines import written_log

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
            asyncio.timeout(20),
        ):
            while len(written.getvalue().splitlines()) < 20:
                await asyncio.sleep(0.01)

    lines = written.of("mcp_server.stderr")
    (dropped,) = written.of("mcp_server.stderr_dropped")
    assert [line["text"] for line in lines[:2]] == ["[2J 0", "[2J 1"]
    assert {line["server"] for line in lines} == {"shop"}
    assert len(lines) == 20
    assert dropped["lines"] > 0
