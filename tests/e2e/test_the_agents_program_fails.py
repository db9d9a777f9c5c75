"""The CLI is missing, dies, or writes what nobody can read; whoever runs the server is told how."""

import os
import shlex
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.executors.claude_agent.process.cli import Cli, bundled_cli
from app.executors.port import AgentFailure
from app.simulator.script import Hold, Reply, Text, in_turn
from tests.e2e.parking import a_parking_world, process_of
from tests.e2e.stories import World, WorldOf, a_request, cli_processes
from tests.log_lines import Written, written_log

# What the SDK has begun to read of a program that it stops is left to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def _once_connected(statement: str) -> str:
    """A command that answers the SDK's first request, and then executes this statement of Python."""
    answer = """
import json, os, sys
request = json.loads(sys.stdin.readline())
response = {"subtype": "success", "request_id": request["request_id"], "response": {}}
print(json.dumps({"type": "control_response", "response": response}), flush=True)
"""
    return shlex.join(["exec", sys.executable, "-c", answer + statement])


HOW: list[tuple[AgentFailure, str]] = [
    ("exited", _once_connected("sys.exit(3)")),
    ("not_started", "exit 1"),
    ("line_broken", "echo '{garbage'; exec cat > /dev/null"),
    # As if there were no memory left.
    ("killed", _once_connected("os.kill(os.getpid(), 9)")),
    # It ends its output.
    ("disconnected", _once_connected("sys.exit(0)")),
    ("not_started", "exit 2"),
]


def a_cli(directory: Path, *failing: str) -> Cli:
    """A program that fails in these ways, one after the other, and then is the bundled CLI."""
    records, path = directory / "starts", directory / "claude"
    records.mkdir()
    # Each start takes the next number. Nothing here is a child, which would keep the output open when the
    # program is stopped.
    path.write_text(
        f"#!/bin/sh\nnumber=0\nset -C\n"
        f"until 2> /dev/null true > {records}/$number; do number=$((number + 1)); done\nset +C\n"
        + "".join(f"if [ $number -eq {number} ]; then {how}; fi\n" for number, how in enumerate(failing))
        + f'exec {shlex.quote(str(bundled_cli()))} "$@"\n'
    )
    path.chmod(0o700)
    return Cli(path)


def failures(log: Written) -> list[str]:
    return [line["failure"] for line in log.of("cli.failed")]


async def outcome(world: World, run_id: str) -> dict[str, Any]:
    final: dict[str, Any] = (await world.ended(run_id))["final"]
    return final


async def test_a_run_whose_agent_said_nothing_begins_again(world_of: WorldOf, tmp_path: Path) -> None:
    failure, how = HOW[0]
    world = await world_of(in_turn(Reply([Text("hello")])), cli=lambda _: a_cli(tmp_path, how))

    with written_log() as log:
        events = await world.run(a_request(runId="r1"))

    assert failures(log) == [failure]
    started = [event.data["attempt"] for event in events if event.type == "run_started"]
    assert (started, events[-1].data["finishReason"]) == ([0, 1], "stop")
    assert len(await world.receipts("r1")) == 1


async def test_each_failure_is_logged_and_counted_by_its_name(world_of: WorldOf, tmp_path: Path) -> None:
    """Two in each run, which begins again once."""
    world = await world_of(in_turn(), cli=lambda _: a_cli(tmp_path, *(how for _, how in HOW)))

    with written_log() as log:
        for _ in HOW[::2]:
            events = await world.run(a_request())
            assert [event.data.get("error") for event in events[-2:]] == ["agent_unavailable", None]
    counted = world.services.metrics.render().decode()

    assert failures(log) == [failure for failure, _ in HOW]
    for failure, count in Counter(failure for failure, _ in HOW).items():
        assert f'runtally_agent_failures_total{{failure="{failure}"}} {count}.0' in counted


async def test_a_program_that_always_fails_is_started_twice(world_of: WorldOf, tmp_path: Path) -> None:
    cli = a_cli(tmp_path, *["exit 1"] * 9)
    world = await world_of(in_turn(), cli=lambda _: cli, RUNTALLY_IDLE_PROCESSES=2)

    events = await world.run(a_request(runId="r1", stateKey="chat"))

    assert [event.data.get("error") for event in events[-2:]] == ["agent_unavailable", None]
    assert await world.receipts("r1") == []
    cli.path.unlink()
    with written_log() as log:
        response = await world.http.post("/v1/generate/text", json={"prompt": "hello", "runId": "r2"})
    assert (response.status_code, response.json()["code"]) == (503, "agent_unavailable")
    assert failures(log) == ["missing", "missing"]
    shown = await world.raw("r2") + response.content + (await world.http.get("/v1/runs/r2")).content
    assert str(tmp_path).encode() not in shown


async def test_a_cli_is_killed_before_its_first_word_and_after(world_of: WorldOf) -> None:
    holds = [Hold(0), Hold(4)]
    replies = [Reply([Text("one two three")], hold=hold) for hold in holds]
    world = await a_parking_world(world_of, in_turn(replies[0], Reply([Text("again")]), replies[1]))

    with written_log() as log:
        first = await world.start(a_request(runId="r1", stateKey="chat"))
        await holds[0].reached.wait()
        (process,) = cli_processes()
        os.kill(process.pid, signal.SIGKILL)
        answered = await outcome(world, first)
        receipts = {(each["attempt"], each["basis"]) for each in await world.receipts(first)}
        kept = process_of(world, "chat")
        second = await world.start(a_request(runId="r2", stateKey="chat"))
        await world.events(second, until="text_delta")
        os.kill(kept.pid, signal.SIGKILL)
        cut = await outcome(world, second)

    assert failures(log) == ["killed", "killed"]
    assert (answered["content"], answered["ok"]) == ("again", True)
    assert receipts == {(0, "partial"), (1, "final")}
    assert (cut["error"], cut["content"]) == ("agent_unavailable", "one")
    assert len(world.simulator.requests) == 3
