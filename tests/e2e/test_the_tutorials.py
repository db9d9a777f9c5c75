"""Each tutorial, followed from its first line to its last in an empty directory."""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shutil import which

import httpx
import psutil
import pytest

from app.executors.claude_agent.process.cli import bundled_cli
from app.simulator.demo import DemoModel
from app.simulator.server import Simulator
from tests.architecture.tree import ROOT
from tests.e2e.parking import gone
from tests.e2e.stories import until
from tests.patience import PATIENCE_S
from tests.ports import free_port

pytestmark = pytest.mark.long

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
_BLOCK = re.compile(r"^```(\S+) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DONE = "the block has ended:"
_BEGUN_WITH = {"first-agent": [], "asks-before-it-acts": ["runtally init shop", "cd shop"]}
"""What a tutorial that begins where another one ends has before its first line."""


@dataclass
class Reader:
    """A person with a shell, who does what a page says."""

    shell: asyncio.subprocess.Process
    directory: Path
    port: int
    provider: str
    """The URL of the model."""
    seen: list[str] = field(default_factory=list)

    async def does(self, commands: str) -> None:
        """Run the lines of a block; each must succeed."""
        output = await self._entered(f"set -e\n{self._here(commands)}\nset +e")
        self.seen.append(output)

    async def begins(self, command: str) -> None:
        """Start what goes on in a terminal of its own, until the next step can be done."""
        log = self.directory / f"terminal{len(list(self.directory.glob('terminal*')))}"
        await self._entered(f"({self._here(command).strip()}) > {log} 2>&1 &")
        is_server = "serve" in command

        async with asyncio.timeout(PATIENCE_S):
            while not await (self._is_ready() if is_server else self._something_waits()):
                await asyncio.sleep(0.1)

    async def writes(self, path: str, text: str) -> None:
        """Write a file that a page shows."""
        place = (await self._entered("pwd")).strip()
        (Path(place) / path).write_text(text)

    def sees(self, *words: str) -> bool:
        """Whether all these were printed, in any terminal."""
        terminals = (terminal.read_text() for terminal in self.directory.glob("terminal*"))
        output = "".join((*self.seen, *terminals))
        return all(each in output for each in words)

    def _here(self, commands: str) -> str:
        """The commands with a port that is free, and a model that is scripted."""
        settings = f"ANTHROPIC_API_KEY=sk-test ANTHROPIC_BASE_URL={self.provider} RUNTALLY_IDLE_PROCESSES=0"
        serve = f"env {settings} runtally serve --port {self.port}"
        return commands.replace("8000", str(self.port)).replace("runtally serve", serve)

    async def _entered(self, line: str) -> str:
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        # Claude Code would read the next line, too.
        self.shell.stdin.write(f"{{ {line}\n}} </dev/null\necho; echo '{_DONE}'\n".encode())
        printed: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while (each := (await self.shell.stdout.readline()).decode()).strip() != _DONE:
                assert each, "".join(printed)
                printed.append(each)
        return "".join(printed)

    async def _is_ready(self) -> bool:
        try:
            async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
                return (await http.get(f"http://127.0.0.1:{self.port}/readyz")).is_success
        except httpx.TransportError:
            return False

    async def _something_waits(self) -> bool:
        return bool((await self._entered("runtally approvals list")).strip())


@asynccontextmanager
async def a_reader(directory: Path) -> AsyncIterator[Reader]:
    """In an empty directory, with the programs that the tutorials name; the provider is scripted."""
    programs, home = directory / "bin", directory / "home"
    programs.mkdir()
    home.mkdir()
    (programs / "claude").symlink_to(bundled_cli())
    port = free_port()
    async with Simulator(DemoModel(word_delay_s=0)) as provider:
        shell = await asyncio.create_subprocess_exec(
            *("bash", "--noprofile", "--norc"),
            env={
                "PATH": f"{Path(sys.executable).parent}:{programs}:{os.defpath}",
                "HOME": str(home),
                "COLUMNS": "80",
                "RUNTALLY_URL": f"http://127.0.0.1:{port}",
                "DISABLE_AUTOUPDATER": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
            cwd=home,
            stdin=PIPE,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=True,
        )
        try:
            yield Reader(shell, directory, port, provider.url)
        finally:
            started = psutil.Process(shell.pid).children(recursive=True)
            os.killpg(shell.pid, signal.SIGTERM)
            await shell.wait()
            # A server and its database write into the directory until they have ended.
            for each in started:
                await gone(each)


def blocks_of(page: Path) -> list[tuple[str, str, str]]:
    """The language, the options and the text of each block."""
    return _BLOCK.findall(page.read_text("utf-8"))


@pytest.mark.skipif(which("curl") is None, reason="a tutorial uses curl")
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
async def test_a_reader_with_only_the_page_reaches_its_end(page: Path, memory_path: Path) -> None:
    async with a_reader(memory_path) as reader:
        await reader.does("\n".join(_BEGUN_WITH.get(page.stem, [])))
        for language, options, text in blocks_of(page):
            if options.startswith("file="):
                await reader.writes(options.removeprefix("file="), text)
            elif language == "console" and options == "background":
                await reader.begins(text)
            elif language == "console":
                await reader.does(text)
            elif language == "text":
                for line in text.splitlines():
                    await until(partial(reader.sees, line))
            else:
                assert text == 'pip install "runtally[server]"\n'


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_no_sentence_of_a_tutorial_is_long(page: Path) -> None:
    text = re.sub(r"^#.*$", "", _BLOCK.sub("", page.read_text("utf-8")), flags=re.MULTILINE)
    sentences = re.split(r"(?<=[.:?])\s+", " ".join(re.sub(r"\]\([^)]*\)", "]", text).split()))

    assert [sentence for sentence in sentences if len(sentence.split()) > 30] == []
