"""A CLI that says more than anybody reads of it."""

import asyncio
import os
import sys
from pathlib import Path

import psutil
import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

from app.executors.claude_agent.process.cli_process import CliFailed, CliProcess
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.process.message_buffer import MAX_BYTES
from tests.patience import PATIENCE_S

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
