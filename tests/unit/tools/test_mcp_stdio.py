import asyncio
import sys

from app.tools.mcp_limits import ResponseLimit
from app.tools.mcp_stdio import bounded_stdio
from tests.log_lines import written_log

PROGRAM = """
import sys
for number in range(200):
    print(f"\\x1b[2J {number}", file=sys.stderr)
print("x" * 1_000_000, file=sys.stderr)
sys.stdin.read()
"""


async def test_what_a_program_writes_to_standard_error_is_logged_in_part() -> None:
    with written_log() as written:
        async with bounded_stdio([sys.executable, "-c", PROGRAM], {}, limit=ResponseLimit.of_results(1000)):
            async with asyncio.timeout(20):
                while len(written.getvalue().splitlines()) < 100:
                    await asyncio.sleep(0.01)

    lines = [line["text"] for line in written.of("mcp_server.stderr")]
    assert lines[:2] == ["\ufffd[2J 0", "\ufffd[2J 1"]
    assert 100 <= len(lines) <= 200
    assert sum(map(len, lines)) < 10_000
