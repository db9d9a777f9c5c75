"""Other people's servers on the same work, each installed into an environment of its own.

LiteLLM's proxy passes a message of the official client on. `langgraph dev` executes a run of a graph with one
node, which streams one message. Neither bills, stores or isolates what Runtally does: the table shows what
that costs. A peer that cannot be installed or started is named in the table.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from app.platform.embedded.ports import free_port
from benchmarks.servers import READY_S, client
from benchmarks.variants import MODEL, PROMPT, Run, RunFailed, Times, streamed

_DIRECTORY = Path(__file__).parents[1] / ".venv" / "peers"
"""Beside the environment of this project, which git ignores."""

_GRAPH = f"""
from langchain_anthropic import ChatAnthropic
from langgraph.graph import END, START, MessagesState, StateGraph

model = ChatAnthropic(model="{MODEL}", max_tokens=1000, streaming=True)


async def answer(state: MessagesState):
    return {{"messages": [await model.ainvoke(state["messages"])]}}


graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").add_edge("answer", END).compile()
"""


class PeerFailed(Exception):
    """A peer cannot be measured; its text is the reason."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A server that is running."""

    run: Run
    process: psutil.Process


@dataclass(frozen=True, slots=True)
class _Program:
    """How a peer is installed and started."""

    requirements: tuple[str, ...]
    command: tuple[str, ...]
    """Without the port."""
    files: Mapping[str, str]
    ready_path: str

    async def installed(self) -> Path:
        """Its directory of programs; raises `PeerFailed`."""
        home = _DIRECTORY / self.command[0]
        programs = home / "bin"
        if not (programs / self.command[0]).exists():
            await asyncio.to_thread(venv.create, home, with_pip=True, clear=True)
            pip = (str(programs / "python"), "-m", "pip", "install", "--quiet", *self.requirements)
            installing = await asyncio.create_subprocess_exec(*pip, stderr=subprocess.DEVNULL)
            if await installing.wait():
                message = "pip cannot install it"
                raise PeerFailed(message)
        return programs

    def write(self, directory: Path) -> None:
        """What it reads when it starts."""
        directory.mkdir(parents=True)
        for name, text in self.files.items():
            (directory / name).write_text(text, "utf-8")


def _litellm(model_url: str, router: Mapping[str, Any]) -> _Program:
    parameters = {"model": f"anthropic/{MODEL}", "api_base": model_url, "api_key": "simulated"}
    models = [{"model_name": MODEL, "litellm_params": parameters}]
    config = {"model_list": models, "router_settings": dict(router)}
    return _Program(
        ("litellm[proxy]",),
        ("litellm", "--config", "config.yaml", "--telemetry", "False", "--host", "127.0.0.1"),
        # JSON is YAML.
        {"config.yaml": json.dumps(config)},
        "/health/liveliness",
    )


def _langgraph() -> _Program:
    config = {"dependencies": ["."], "graphs": {"graph": "./graph.py:graph"}}
    return _Program(
        ("langgraph-cli[inmem]", "langchain-anthropic"),
        ("langgraph", "dev", "--no-browser", "--no-reload", "--n-jobs-per-worker", "10"),
        {"langgraph.json": json.dumps(config), "graph.py": _GRAPH},
        "/ok",
    )


@asynccontextmanager
async def _installed(
    program: _Program, directory: Path, environment: Mapping[str, str]
) -> AsyncIterator[tuple[str, psutil.Process]]:
    programs = await program.installed()
    program.write(directory)
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = (str(programs / program.command[0]), *program.command[1:], "--port", str(port))
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    async with running(command, directory, {"PATH": path, **environment}, url + program.ready_path) as server:
        yield url, server


@asynccontextmanager
async def running(
    command: Sequence[str], directory: Path, environment: Mapping[str, str], ready_url: str
) -> AsyncIterator[psutil.Process]:
    """A server that has started, and logs to the directory; raises `PeerFailed`."""
    with (directory / "log").open("wb") as log:
        server = psutil.Popen(
            command,
            cwd=directory,
            env={"PATH": os.environ["PATH"], "HOME": str(directory), **environment},
            stdout=log,
            stderr=log,
        )
    try:
        await _until_ready(server, ready_url)
        yield server
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for each in [*server.children(recursive=True), server]:
                each.terminate()
        await asyncio.to_thread(server.wait)


async def _until_ready(server: psutil.Popen, url: str) -> None:
    deadline = time.monotonic() + READY_S
    async with httpx.AsyncClient(trust_env=False, timeout=READY_S) as http:
        while server.poll() is None and time.monotonic() < deadline:
            try:
                if (await http.get(url)).is_success:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)
    message = "it is installed, and does not start"
    raise PeerFailed(message)


@asynccontextmanager
async def litellm_proxy(
    model_url: str, directory: Path, **router: Any
) -> AsyncIterator[tuple[str, psutil.Process]]:
    """LiteLLM's proxy with these settings of its router; raises `PeerFailed`."""
    environment = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        # On loopback, for a scripted model.
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    async with _installed(_litellm(model_url, router), directory, environment) as server:
        yield server


@asynccontextmanager
async def _gateway(model_url: str, directory: Path) -> AsyncIterator[Peer]:
    async with litellm_proxy(model_url, directory) as (url, process), streamed(url) as run:
        yield Peer(run, process)


@asynccontextmanager
async def _graph_server(model_url: str, directory: Path) -> AsyncIterator[Peer]:
    environment = {
        "ANTHROPIC_API_KEY": "simulated",
        "ANTHROPIC_BASE_URL": model_url,
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    }
    async with (
        _installed(_langgraph(), directory, environment) as (url, process),
        client(url, "none") as http,
    ):
        yield Peer(lambda _: _graph_run(http), process)


async def _graph_run(http: httpx.AsyncClient) -> Times:
    body = {
        "assistant_id": "graph",
        "input": {"messages": [{"role": "user", "content": PROMPT}]},
        "stream_mode": ["messages-tuple"],
    }
    first, received = 0.0, bytearray()
    async with http.stream("POST", "/runs/stream", json=body) as response:
        async for chunk in response.aiter_raw():
            received += chunk
            if not first and b"event: messages" in received:
                first = time.perf_counter()
    if not first or b"event: error" in received:
        raise RunFailed(bytes(received[-300:]))
    return Times(first, time.perf_counter())


LITELLM, LANGGRAPH = "`anthropic` stream through LiteLLM", "`langgraph dev`, one node"
PEERS = {LITELLM: _gateway, LANGGRAPH: _graph_server}


@asynccontextmanager
async def running_peers(model_url: str, directory: Path) -> AsyncIterator[dict[str, Peer]]:
    """All that can be installed and started, by name; why others cannot goes to standard error."""
    peers: dict[str, Peer] = {}
    async with AsyncExitStack() as stack:
        for number, (name, start) in enumerate(PEERS.items()):
            try:
                peers[name] = await stack.enter_async_context(start(model_url, directory / str(number)))
            except PeerFailed as error:
                print(f"{name}: {error}", file=sys.stderr)
        yield peers
