"""The programs of the quick starts work unchanged against a server."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
import pytest_asyncio

from app.simulator.script import ApiRequest, Reply, Text, ToolUse
from tests.clients.node import compile_typescript, install_client, node
from tests.clients.quick_starts import programs
from tests.e2e.office import MAIL, settings
from tests.e2e.stories import KEY, World, WorldOf

pytestmark = pytest.mark.long

ANSWER = "Paris is the capital of France."


PYTHON = programs("QUICKSTART_PYTHON.md", "python")
TYPESCRIPT = programs("QUICKSTART_TYPESCRIPT.md", "typescript")
JAVASCRIPT = programs("QUICKSTART_TYPESCRIPT.md", "javascript")


@pytest_asyncio.fixture
async def world(world_of: WorldOf, tmp_path: Path) -> World:
    def respond(request: ApiRequest) -> Reply:
        if "Alice" in request.last_text:
            return Reply([ToolUse(MAIL, {"to": "alice@example.org", "text": "Hello"})])
        if "Paint" in request.last_text:
            return Reply([ToolUse("mcp__runtally__client-pick_color", {"about": "sky"})])
        if request.tool_results:
            answered = str(request.tool_results)
            return Reply([Text("It is blue." if "blue" in answered else "Sent to Alice.")])
        italy = "Italy" in request.last_text
        return Reply([Text("And Rome of Italy." if italy else ANSWER)], final_usage={"output_tokens": 9})

    options = settings(tmp_path)
    painter = "---\ndescription: d\nclient_tools: true\n---\nPaint.\n"
    (Path(str(options["RUNTALLY_GRAPHS_DIR"])) / "painter.md").write_text(painter)
    return await world_of(respond, **options)


def there(world: World) -> dict[str, str]:
    return {"RUNTALLY_URL": world.url, "RUNTALLY_API_KEY": KEY, "PATH": os.environ["PATH"]}


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        (PYTHON[0], [ANSWER, "ended: stop"]),
        (PYTHON[1], [ANSWER]),
        (PYTHON[2], [ANSWER, "And Rome of Italy.", "turns: 2", "USD"]),
        (PYTHON[3], ["waiting: office__send_mail", "alice@example.org", "Sent to Alice."]),
        (PYTHON[4], ["picked for sky", "It is blue."]),
        (PYTHON[5], ["current:", "USD", "And Rome of Italy."]),
        (PYTHON[6], [ANSWER, "ended: stop"]),
    ],
    ids=[title for title, _ in PYTHON],
)
async def test_the_python_programs_work(
    world: World, tmp_path: Path, program: tuple[str, str], printed: list[str]
) -> None:
    (tmp_path / "program.py").write_text(program[1])

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "program.py"),
        cwd=tmp_path,
        env=there(world),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()

    assert (process.returncode, errors) == (0, b"")
    assert all(text in output.decode() for text in printed)


async def test_the_node_programs_compile_and_work(world: World, tmp_path: Path) -> None:
    directory = tmp_path / "project"
    directory.mkdir()
    await asyncio.to_thread(install_client, tmp_path)
    names = [f"program{number}" for number, _ in enumerate(TYPESCRIPT)]
    for name, (_, program) in zip(names, TYPESCRIPT, strict=True):
        (directory / f"{name}.ts").write_text(program)
    ((plain, program),) = JAVASCRIPT
    (directory / "plain.mjs").write_text(program)

    await compile_typescript(directory, *(f"{name}.ts" for name in names))
    files = ["plain.mjs", *(f"{name}.js" for name in names)]
    runs = (node(str(directory / name), variables=there(world)) for name in files)
    titles = [plain, *(title for title, _ in TYPESCRIPT)]
    outputs = dict(zip(titles, await asyncio.gather(*runs), strict=True))

    consent = outputs.pop("Decide about a tool call")
    assert "waiting: office__send_mail" in consent
    assert "Sent to Alice." in consent
    painted = outputs.pop("Tools of your program")
    assert "It is blue." in painted
    assert all(ANSWER in text for text in outputs.values()), outputs
    assert "turns: 2" in outputs["Continue a conversation and read its costs"]
