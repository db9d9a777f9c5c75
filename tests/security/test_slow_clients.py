"""Clients that begin and do not go on, on a server that may open few files."""

import asyncio
import resource
from pathlib import Path

from tests.e2e.servers import a_server
from tests.e2e.stories import PATIENCE_S
from tests.security.server import Target

FILES = 1024
HALF_SENT = 1100
FEW_FILES = ["prlimit", f"--nofile={FILES}:{FILES}"]


async def test_half_sent_requests_leave_the_server_to_others(
    tmp_path: Path, database_url: str, model_url: str
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft >= 2 * HALF_SENT, f"this test needs more open files than {soft}; {hard} are allowed"
    serving = a_server(tmp_path, model_url, within=FEW_FILES, DATABASE_URL=database_url)
    async with serving as (process, http):
        target = Target(str(http.base_url), process, database_url, tmp_path)
        held = [await _half_sent(target) for _ in range(HALF_SENT)]
        asked = asyncio.get_running_loop().time()
        answers = [await http.get(path) for path in ("/healthz", "/v1/runs", "/v1/graphs")]
        took_s = asyncio.get_running_loop().time() - asked
        cut = sum([await _is_cut(reader) for reader, _ in held])
        for _, writer in held:
            writer.transport.abort()

    assert [answer.status_code for answer in answers] == [200] * 3
    assert took_s < PATIENCE_S / 2
    # Those for which there was no room at once, the others when they had had their time.
    assert cut == HALF_SENT


async def _half_sent(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await target.connect()
    writer.write(b"GET /healthz HTTP/1.1\r\nHo")
    return reader, writer


async def _is_cut(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(PATIENCE_S):
            await reader.read()
    except ConnectionError:
        return True
    return reader.at_eof()
