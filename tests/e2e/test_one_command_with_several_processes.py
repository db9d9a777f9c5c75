"""`runtally serve --processes`: a fleet on one machine, with one command, one port and one log."""

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from app.simulator.script import Answer, ApiRequest, Hold, Reply, Text
from app.simulator.server import Simulator
from tests.e2e.agents import CLAUDE, MESSAGES, named
from tests.e2e.servers import ROOT, STOPPED_S, a_server, an_environment
from tests.e2e.stories import ANALYST, a_client, a_request, until
from tests.e2e.test_a_conversation_keeps_its_process import echo, questions
from tests.e2e.test_the_bill_equals_the_wire import CASES
from tests.e2e.the_bill import bill, wire
from tests.patience import PATIENCE_S

SAMPLE = re.compile(r'^(\w+)\{process="(\d+)"(?:,(.*))?\} (\S+)$', re.MULTILINE)

SUCCEEDED = 'error="none",graph="claude_agents:assistant",status="succeeded"'


class Command:
    """The command, as its operator sees it."""

    def __init__(self, process: psutil.Process, http: httpx.AsyncClient, log: Path) -> None:
        self.process = process
        self.http = http
        self._log = log

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged: each line is whole."""
        whole, _, _ = self._log.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def started(self, name: str) -> list[int]:
        """The ids of the server processes of this name, in the order in which they began to serve."""
        serves = [line for line in self.lines() if line["event"] == "process.serves"]
        return [line["pid"] for line in serves if line["name"] == name]

    async def until_serving(self, *names: str) -> None:
        """Wait until all of these have served."""
        await until(lambda: {line.get("name") for line in self.lines()} >= set(names))

    async def answer(self, body: dict[str, Any]) -> str:
        """The answer to a run, which is posted again as long as the process that was to answer is killed."""
        response = await asked(lambda: self.http.post("/v1/runs/wait", json=body))
        return str(response.json()["content"])

    async def receipts(self) -> list[dict[str, Any]]:
        """The receipts of its account."""
        response = await asked(lambda: self.http.get("/v1/receipts?limit=200"))
        return list(response.json()["items"])

    async def metric(self, name: str, labels: str = "") -> dict[str, float]:
        """A metric by process."""
        text = (await asked(lambda: self.http.get("/metrics"))).text
        found = [each for each in SAMPLE.findall(text) if (each[0], each[2]) == (name, labels)]
        assert len({each[1] for each in found}) == len(found)
        return {process: float(value) for _, process, _, value in found}

    async def executes(self, run: Awaitable[None]) -> str:
        """The process that has executed this run, the only one."""
        ended = "runtally_runs_ended_total", SUCCEEDED
        before = await self.metric(*ended)
        await run
        async with asyncio.timeout(PATIENCE_S):
            while not (more := (await self.metric(*ended)).items() - before.items()):
                await asyncio.sleep(0.05)
        ((process, _),) = more
        return process

    async def until_metric(self, name: str, labels: str = "", **least: float) -> None:
        """Wait until values of processes are at least these; `_1` is the first."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = await self.metric(name, labels)
                if all(found.get(process[1:], 0) >= value for process, value in least.items()):
                    return
                await asyncio.sleep(0.05)


@asynccontextmanager
async def a_command(
    directory: Path, simulator: Simulator, processes: int, *, agent: str = MESSAGES, **settings: str
) -> AsyncIterator[Command]:
    """Serve with so many processes, an embedded PostgreSQL and an embedded Valkey."""
    names = [str(number) for number in range(1, processes + 1)]
    options = ("--processes", str(processes))
    async with a_server(directory, simulator.url, agent=agent, options=options, **settings) as (
        process,
        http,
    ):
        command = Command(process, http, directory / "log")
        await command.until_serving(*names)
        yield command


async def asked(ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    """Ask again as long as the process that was to answer is killed."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return (await ask()).raise_for_status()
            except httpx.TransportError:
                await asyncio.sleep(0.05)


async def until_gone(processes: Iterable[psutil.Process]) -> None:
    await until(lambda: not any(each.is_running() and each.status() != "zombie" for each in processes))


@pytest.fixture
def heard_hangups() -> Iterator[None]:
    """Where the tests themselves run under `nohup`, what they start would ignore them."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heard_hangups")
async def test_a_process_is_killed_and_another_takes_its_place_and_every_message_is_billed_once(
    migrated_path: Path,
) -> None:
    hold = Hold(index=5)

    def respond(request: ApiRequest) -> Reply:
        is_held = request.last_text == "hold"
        return Reply([Text("one two three four")], hold=hold) if is_held else echo(request)

    async with Simulator(respond) as simulator:
        async with a_command(migrated_path, simulator, 2, RUNTALLY_LEASE_S="5") as command:
            await command.http.post("/v1/runs", json=a_request("hold", runId="lost"))
            await hold.reached.wait()
            active = await command.metric("runtally_runs_active")
            (name,) = [process for process, count in active.items() if count]
            (killed,) = command.started(name)
            psutil.Process(killed).kill()
            bodies = [a_request(str(number), runId=f"run-{number}") for number in range(12)]
            finals = await asyncio.gather(*(command.answer(body) for body in bodies))
            await until(lambda: len(command.started(name)) == 2)
            await command.until_metric("runtally_process_available", _1=1, _2=1)
            lost = (await asked(lambda: command.http.get("/v1/runs/lost/events"))).text
            receipts = await command.receipts()
            family = command.process.children(recursive=True)
            # Its terminal is closed.
            command.process.send_signal(signal.SIGHUP)
            status = await asyncio.to_thread(command.process.wait, STOPPED_S)
            await until_gone(family)
        hold.until.set()
        ended = [line for line in command.lines() if line["event"] == "process.ended"]
        of_others = [message for message in simulator.sent if "four" not in message.sent_output]

    assert finals == [f"You said: {number}" for number in range(12)]
    assert '"error":"internal"' in lost
    assert {receipt["usageUnitId"] for receipt in receipts} == {each.message_id for each in simulator.sent}
    whole = [receipt for receipt in receipts if receipt["runId"] != "lost"]
    assert bill(whole) == wire(each for each in of_others if each.final_usage is not None)
    assert (status, [(line["name"], line["status"]) for line in ended]) == (0, [(name, -signal.SIGKILL)])
    assert {line["server_process"] for line in command.lines()} == {"supervisor", "1", "2"}


async def test_a_signal_in_the_first_moments_leaves_nothing(tmp_path: Path) -> None:
    """Making the database takes longer than what happens then."""
    directory = tmp_path / "t"
    directory.mkdir()
    started = await started_in(tmp_path, TMPDIR=str(directory))
    await until(lambda: any(directory.glob("runtally-*")))
    started.terminate()
    _, log = await started.communicate()

    assert (started.returncode, list(directory.glob("runtally-*"))) == (0, [])
    assert json.loads(log.splitlines()[-1])["event"] == "server.stopped_before_start"


async def test_that_no_temporary_file_can_be_written_is_explained(tmp_path: Path) -> None:
    started = await started_in(tmp_path, "sh", "-c", 'ulimit -f 0; exec "$0" "$@"')
    _, log = await started.communicate()

    assert started.returncode == 1
    assert b"another one in TMPDIR" in log
    assert b"Traceback" not in log


async def started_in(directory: Path, *within: str, **settings: str) -> asyncio.subprocess.Process:
    """The command, without a database."""
    return await asyncio.create_subprocess_exec(
        *(*within, sys.executable, "-m", "app", "serve", "--port", "0", "--processes", "2"),
        cwd=ROOT,
        env=an_environment(directory, "http://127.0.0.1:9", **settings),
        stderr=asyncio.subprocess.PIPE,
    )


async def test_the_bill_equals_the_wire_a_turn_finds_its_agent_and_nothing_is_left_of_a_killed_command(
    migrated_path: Path,
) -> None:
    """Every case of the bill at once, whichever process takes it; others open nothing that they share."""
    responders = {case: make() for case, (make, _, _) in CASES.items()}

    def respond(request: ApiRequest) -> Answer | Awaitable[Answer]:
        return responders.get(questions(request)[0], echo)(request)

    def body(case: str) -> dict[str, Any]:
        graph = ANALYST.replace(CLAUDE, MESSAGES)
        return a_request(case, graphId=graph, model="claude-sonnet-4-6", limits=CASES[case][1])

    temporary = migrated_path / "t"
    temporary.mkdir()
    own = {"RUNTALLY_IDLE_PROCESSES": "4", "TMPDIR": str(temporary)}
    async with (
        Simulator(named(MESSAGES, respond)) as simulator,
        a_command(migrated_path, simulator, 2, agent=CLAUDE, **own) as command,
    ):
        (directory,) = temporary.glob("runtally-*")
        sockets = {path.name for path in directory.iterdir() if path.is_socket()}
        mode = directory.stat().st_mode & 0o777
        await asyncio.gather(*(command.answer(body(case)) for case in CASES))
        async with asyncio.timeout(PATIENCE_S):
            while len(receipts := await command.receipts()) < len(wire(simulator.sent)):
                await asyncio.sleep(0.05)
        assert bill(receipts) == wire(simulator.sent)
        await assert_executed_where_parked(command)
        asked_last = questions(simulator.requests[-1])
        family = command.process.children(recursive=True)
        command.process.kill()
        await until_gone([command.process, *family])

    assert sockets == {"valkey.sock", "1.metrics", "2.metrics"}
    assert mode == 0o700
    assert [text for text in asked_last if text] == ["first", "second"]
    assert len(family) > 4
    assert not list(temporary.glob("runtally-*"))


async def assert_executed_where_parked(command: Command) -> None:
    """The turn is kept for that process for 100 ms only, which a busy machine may miss."""
    async with AsyncExitStack() as stack:
        one, two = (psutil.Process(command.started(name)[0]) for name in "12")
        of_one = await stack.enter_async_context(a_connection(command, other=two))
        of_two = await stack.enter_async_context(a_connection(command, other=one))
        parked = 0
        for attempt in range(10):
            key = f"chat-{attempt}"
            if await command.executes(turn(of_one, "first", key)) != "1":
                # Where that process is busy, the other one takes the turn.
                continue
            # At most two of four are sure to stay; the others are replaced by those that are started ahead.
            parked = min(parked + 1, 2)
            await command.until_metric("runtally_cli_processes", 'state="parked"', _1=parked)
            if await command.executes(turn(of_two, "second", key)) == "1":
                return
    pytest.fail("No turn was given to the process that keeps its agent.")


async def test_what_prevents_the_start_is_reported_once_and_ends_the_command(migrated_path: Path) -> None:
    started = await started_in(migrated_path, RUNTALLY_DEFAULT_MODEL="no-such-model")
    _, log = await started.communicate()

    assert started.returncode == 1
    assert log.count(b"no-such-model") == 1
    assert log.splitlines()[-1] == (
        b"Server process 1 has ended with status 1 before it could serve; the log has the reason."
    )


@pytest.mark.long
async def test_a_process_that_cannot_be_started_again_ends_the_command(migrated_path: Path) -> None:
    graphs = migrated_path / "graphs"
    graphs.mkdir()
    async with (
        Simulator(echo) as simulator,
        a_command(migrated_path, simulator, 2, RUNTALLY_GRAPHS_DIR=str(graphs)) as command,
    ):
        (graphs / "bad.md").write_text("---\nmodel: [\n---\nhello\n")
        psutil.Process(command.started("2")[0]).kill()
        status = await asyncio.to_thread(command.process.wait, PATIENCE_S)
        said = (migrated_path / "log").read_text()

    assert status == 1
    assert "Server process 2 has ended with status 1 before it could serve, 5 times" in said


@asynccontextmanager
async def a_connection(command: Command, *, other: psutil.Process) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose only connection is not to this process."""
    async with a_client(str(command.http.base_url), agent=CLAUDE) as http:
        other.suspend()
        try:
            # Until then it is not known to be suspended.
            await until(lambda: other.status() == psutil.STATUS_STOPPED)
            await http.get("/healthz")
        finally:
            other.resume()
        yield http


async def turn(http: httpx.AsyncClient, text: str, key: str) -> None:
    response = await http.post("/v1/runs/wait", json=a_request(text, stateKey=key))
    assert response.json()["ok"], response.text
