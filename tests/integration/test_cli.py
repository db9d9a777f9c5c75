"""What the CLI says of itself, and what is done about one that does not answer or says too much."""

import asyncio
import gc
import os
import sys
from pathlib import Path

import psutil
import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

from app.executors.claude_agent.process.cli import PINNED_VERSION, Cli, bundled_cli
from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.process.environment import Login
from app.executors.claude_agent.process.failures import CliFailed
from app.executors.claude_agent.process.message_buffer import MAX_BYTES
from app.executors.claude_agent.process.spawned import SpawnedProcess
from tests.e2e.recording_cli import a_login
from tests.patience import PATIENCE_S


async def test_the_bundled_cli_is_the_pinned_one(tmp_path: Path) -> None:
    assert await Cli(bundled_cli()).version(tmp_path) == PINNED_VERSION
    assert os.listdir(tmp_path) == []  # noqa: PTH208


async def test_the_cli_reports_whether_it_is_logged_in(tmp_path: Path) -> None:
    cli, empty = Cli(bundled_cli()), tmp_path / "empty"
    empty.mkdir()

    assert await cli.login_status(tmp_path, Login.of(empty)) is None
    status = await cli.login_status(tmp_path, Login.of(a_login(tmp_path / "login")))
    assert status is not None
    assert status["apiProvider"] == "firstParty"


async def test_a_cancelled_query_leaves_no_process(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    # Its child keeps the pipe open for a while.
    program.write_text(f"#!/bin/sh\nsleep 1 &\necho $$ > {tmp_path}/started && exec sleep 60\n")
    program.chmod(0o700)
    starting = asyncio.create_task(Cli(program).version(tmp_path))
    async with asyncio.timeout(PATIENCE_S):
        while not (started := tmp_path / "started").exists() or not started.read_text():
            await asyncio.sleep(0.01)

    starting.cancel()
    await asyncio.wait({starting})

    pid = int(started.read_text())
    transports = [each for each in gc.get_objects() if isinstance(each, asyncio.SubprocessTransport)]
    assert all(transport.is_closing() for transport in transports if transport.get_pid() == pid)
    assert not psutil.pid_exists(pid)
    assert sorted(os.listdir(tmp_path)) == ["claude", "started"]  # noqa: PTH208


async def test_a_process_that_was_not_started_has_no_output() -> None:
    spawned = SpawnedProcess(ClaudeSDKClient(ClaudeAgentOptions()))

    async with spawned.noted():
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        await spawned.close_output()


REFUSAL = r"""
id=$(echo "$request" | sed 's/.*"request_id": *"\([^"]*\)".*/\1/')
printf '{"type": "control_response", "response": {"subtype": "error", "request_id": "%s", ' "$id"
printf '"error": "no"}}\n'
"""


@pytest.mark.parametrize("answer", ["", REFUSAL], ids=["discarded", "refused"])
async def test_a_cli_that_does_not_start_leaves_no_pipe_open(tmp_path: Path, answer: str) -> None:
    directory = RunDirectory(tmp_path)
    # It does not answer the SDK's first request, or refuses it, and its child keeps the pipe open.
    started = f"sleep 600 &\necho $! > {tmp_path}/child\nread request\necho $$ > {directory.pid_file}"
    script = f"#!/bin/sh\n{started}\ncp {directory.pid_file} {tmp_path}/pid\n{answer}cat > /dev/null\n"
    options = ClaudeAgentOptions(cli_path=directory.write_launcher(script), cwd=directory.work)
    process = CliProcess(ClaudeSDKClient(options), directory)
    process.start()
    async with asyncio.timeout(PATIENCE_S):
        while not answer and process.pid is None:
            await asyncio.sleep(0.01)
        if not answer:
            process.discard()
        await process.exited.wait()
    pid = int((tmp_path / "pid").read_text())
    psutil.Process(int((tmp_path / "child").read_text())).kill()

    transports = [each for each in gc.get_objects() if isinstance(each, asyncio.SubprocessTransport)]
    pipes = [each.get_pipe_transport(1) for each in transports if each.get_pid() == pid]
    assert all(pipe is None or pipe.is_closing() for pipe in pipes)


# Answers the SDK's requests, the interrupt as well, and pours out text for ever once it is asked.
FLOOD = """#!{python}
import json, os, pathlib, sys, threading
pathlib.Path({pid_file!r}).write_text(str(os.getpid()))
lock = threading.Lock()
def say(message):
    with lock:
        sys.stdout.write(json.dumps(message) + "\\n")
        sys.stdout.flush()
def pour():
    delta = {{"type": "text_delta", "text": "\\U0001f600" * 1000}}
    event = {{"type": "content_block_delta", "index": 0, "delta": delta}}
    message = {{"type": "stream_event", "uuid": "u", "session_id": "s", "parent_tool_use_id": None}}
    while True:
        say({{**message, "event": event}})
for line in sys.stdin:
    asked = json.loads(line)
    if asked["type"] == "control_request":
        answer = {{"subtype": "success", "request_id": asked["request_id"], "response": {{}}}}
        say({{"type": "control_response", "response": answer}})
    else:
        threading.Thread(target=pour, daemon=True).start()
"""
MB = 2**20


async def test_a_cli_whose_words_nobody_reads_is_killed_at_a_bound(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    script = FLOOD.format(python=sys.executable, pid_file=str(directory.pid_file))
    options = ClaudeAgentOptions(cli_path=directory.write_launcher(script), cwd=directory.work)
    process = CliProcess(ClaudeSDKClient(options), directory)
    before = psutil.Process().memory_info().rss
    owner = process.start()
    process.send("m", "go")
    try:
        async with asyncio.timeout(PATIENCE_S):
            await process.exited.wait()
        grown = psutil.Process().memory_info().rss - before
        received, reading = 0, process.messages()
        with pytest.raises(CliFailed, match="BufferFull"):  # noqa: PT012 - which one raises is the question
            while True:
                await anext(reading)
                received += 1
    finally:
        process.kill()
        await owner

    assert process.killed
    assert received * 4000 < MAX_BYTES
    assert grown < MAX_BYTES + 32 * MB, f"{grown / MB:.0f} MB"
    assert os.listdir(tmp_path) == []  # noqa: PTH208
