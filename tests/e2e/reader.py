"""A person who does what a tutorial says, in an empty directory."""

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import httpx
import psutil
import yaml
from playwright.async_api import Page

from app.executors.claude_agent.process.cli import bundled_cli
from app.platform.embedded.ports import free_port
from app.simulator.demo import DemoModel
from app.simulator.server import Simulator
from tests.architecture.tree import ROOT
from tests.browser.site import a_browser
from tests.e2e.parking import gone
from tests.frontends.built import HERE as FRONTENDS
from tests.frontends.built import installed_packages
from tests.integration.test_billing_views import filled
from tests.patience import PATIENCE_S

_DONE = "the block has ended:"
_DASHBOARD = ROOT / "deploy" / "grafana" / "runtally-costs.json"
_KUBECTL = f'#!/bin/sh\ncd {ROOT} && exec {sys.executable} -m tests.e2e.kubectl "$@"\n'


@dataclass
class Reader:
    """A person with a shell and a browser."""

    shell: asyncio.subprocess.Process
    directory: Path
    port: int
    provider: str
    """The URL of the model."""
    addresses: dict[str, str]
    """What the reader has already, by the name of its variable."""
    stack: AsyncExitStack
    page_port: int = field(default_factory=free_port)
    seen: list[str] = field(default_factory=list)
    page: Page | None = None

    async def does(self, commands: str) -> None:
        """Run the lines of a block; each must succeed."""
        self.seen.append(await self._entered(f"set -e\n{self._here(commands)}\nset +e"))

    async def begins(self, command: str) -> None:
        """Start what goes on in a terminal of its own, until the next step can be done."""
        log = self.directory / f"terminal{len(list(self.directory.glob('terminal*')))}"
        await self._entered(f"({self._here(command).strip()}) > {log} 2>&1 &")

        async with asyncio.timeout(PATIENCE_S):
            while not await self._is_ready(command):
                await asyncio.sleep(0.1)

    async def prepares(self, commands: str) -> None:
        """Do what a page asks of a reader's own machine: install, say where a database is, start Grafana."""
        if commands.startswith("export "):
            names = re.findall(r"^export (\w+)=", commands, re.MULTILINE)
            await self.does("\n".join(f"export {name}='{self.addresses[name]}'" for name in names))
        elif commands.startswith("npm install "):
            await self._installs(commands.split()[2:])
        elif commands.startswith("docker build "):
            newest = yaml.safe_load((ROOT / "deploy/kubernetes/kustomization.yaml").read_text())["images"][0]
            assert f"docker push {newest['newName']}:{newest['newTag']}\n" in commands
        elif commands.startswith("docker run "):
            await self._looks_at_grafana()
        else:
            assert commands == 'pip install "runtally[server]"\n'

    async def writes(self, path: str, text: str) -> None:
        """Write a file that a page shows."""
        place = (await self._entered("pwd")).strip()
        (Path(place) / path).write_text(self._here(text))

    async def asks(self, address: str, text: str) -> None:
        """Open a page, and send a message with it."""
        browser = await self.stack.enter_async_context(a_browser())
        self.page = await browser.new_page()
        self.page.set_default_timeout(PATIENCE_S * 1000)
        await self.page.goto(self._here(address))
        await self.page.get_by_role("textbox").fill(text.strip())
        await self.page.get_by_role("textbox").press("Enter")

    async def sees(self, line: str) -> None:
        """Wait until this is printed in any terminal, or shown in the browser."""
        everything = ""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while self._here(line) not in (everything := await self._everything()):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{line} is not in: {everything}") from None

    async def _everything(self) -> str:
        terminals = (terminal.read_text() for terminal in self.directory.glob("terminal*"))
        shown = "" if self.page is None else await self.page.inner_text("body")
        return "".join((*self.seen, *terminals, shown))

    async def _installs(self, packages: list[str]) -> None:
        """Give the directory the packages that tests have, which must be those that the page names."""
        locked = json.loads((FRONTENDS / "package.json").read_text())["dependencies"]
        for package in packages:
            (name, version) = re.findall(r"^(@?[^@]+)@?(\d*)$", package)[0]
            assert locked[name].startswith(version)
        await self._entered(f"ln -s {installed_packages()} node_modules")

    async def _looks_at_grafana(self) -> None:
        """See the titles of the panels whose queries find something, with the data source of the page."""
        source = "grafana/datasources/bills.yaml"
        # As Grafana replaces variables of its environment.
        described = yaml.safe_load(await self._entered(f'eval "cat <<EOF\n$(cat {source})\nEOF"'))
        (bills,) = described["datasources"]
        host, _, port = bills["url"].partition(":")
        options = {"database": bills["jsonData"]["database"], "password": bills["secureJsonData"]["password"]}
        reader = await asyncpg.connect(host=host, port=int(port), user=bills["user"], **options)
        self.stack.push_async_callback(reader.close)
        for panel in json.loads(_DASHBOARD.read_text())["panels"]:
            if await reader.fetch(filled(panel["targets"][0]["rawSql"], "default")):
                self.seen.append(f"{panel['title']}\n")

    def _here(self, text: str) -> str:
        """The text with ports that are free, and a model that is scripted."""
        settings = f"ANTHROPIC_API_KEY=sk-test ANTHROPIC_BASE_URL={self.provider} RUNTALLY_IDLE_PROCESSES=0"
        serve = f"env {settings} runtally serve --port {self.port}"
        text = text.replace("8000", str(self.port)).replace("3000", str(self.page_port))
        return text.replace("runtally serve", serve)

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

    async def _is_ready(self, command: str) -> bool:
        if command.startswith("runtally run"):
            return "until" in await self._entered("runtally approvals list")
        is_page = command.startswith("node")
        url = f"http://127.0.0.1:{self.page_port}/" if is_page else f"http://127.0.0.1:{self.port}/readyz"
        try:
            async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
                return (await http.get(url)).is_success
        except httpx.TransportError:
            return False


@asynccontextmanager
async def a_reader(directory: Path, **addresses: str) -> AsyncIterator[Reader]:
    """In an empty directory, with the programs that the tutorials name; the provider is scripted."""
    programs, home = directory / "bin", directory / "home"
    programs.mkdir()
    home.mkdir()
    (programs / "claude").symlink_to(bundled_cli())
    (programs / "kubectl").write_text(_KUBECTL)
    (programs / "kubectl").chmod(0o755)
    port = free_port()
    async with Simulator(DemoModel(word_delay_s=0)) as provider, AsyncExitStack() as stack:
        shell = await asyncio.create_subprocess_exec(
            *("bash", "--noprofile", "--norc"),
            env={
                "PATH": f"{programs}:{Path(sys.executable).parent}:{os.defpath}",
                "HOME": str(home),
                "COLUMNS": "80",
                "RUNTALLY_URL": f"http://127.0.0.1:{port}",
                "DISABLE_AUTOUPDATER": "1",
                "NPM_CONFIG_UPDATE_NOTIFIER": "false",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
            cwd=home,
            stdin=PIPE,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=True,
        )
        try:
            yield Reader(shell, directory, port, provider.url, addresses, stack)
        finally:
            # A pod is no child of the shell any more, but in its group.
            group = {each for each in psutil.process_iter() if _group_of(each.pid) == shell.pid}
            started = {*group, *psutil.Process(shell.pid).children(recursive=True)}
            os.killpg(shell.pid, signal.SIGTERM)
            await shell.wait()
            # A server and its database write into the directory until they have ended.
            for each in started:
                await gone(each)


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
