"""The scenes of the demo: each is a few requests through the public client, shown as they happen."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Unpack
from uuid import uuid4

from app.cli.client import print_receipts
from app.cli.demo.comparison import ComparedMessage, compare
from app.cli.demo.model import FILE, SUMMARY
from app.cli.demo.screen import Screen
from app.cli.demo.server import DemoServer
from app.errors import OperatorError
from app.simulator.server import Simulator
from runtally import AsyncClient, RunOptions, RunStarted, ServerUnavailable, TextDelta
from runtally.events import PermissionRequest

ASSISTANT = "claude_agents:assistant"
CONCIERGE, CLERK = "claude_agents:demo_concierge", "claude_agents:demo_clerk"
EDITOR, STORYTELLER = "claude_agents:demo_editor", "claude_agents:demo_storyteller"

_ORDERS = b"order,usd\nbooks,120\npaper,35\nink,87\n"
_CUT_AFTER, _KILL_AFTER = 9, 14
"""Pieces of text."""

_AWAY_S = 0.4


class ReceiptsDiffer(OperatorError):
    """Receipts and wire differ: the table shows where."""


@dataclass(slots=True)
class Scenes:
    """The scenes in their order; all of them use one server and one scripted model."""

    client: AsyncClient
    screen: Screen
    server: DemoServer
    simulator: Simulator
    runs: list[str] = field(default_factory=list, init=False)

    async def play(self, graph: str | None, prompt: str) -> None:
        """Show all scenes, or only a run of this graph; raises `ReceiptsDiffer` if the last scene fails."""
        await self.run(graph or ASSISTANT, prompt)
        scenes: list[Callable[[], Awaitable[None]]] = [
            *(self.conversation, self.consent, self.file, self.subagent),
            *(self.cut_stream, self.killed_server),
        ]
        for scene in scenes if graph is None else ():
            await scene()
        await self.bill()

    async def run(self, graph: str, prompt: str) -> None:
        """One run, each event as it arrives, and its receipts."""
        self.screen.scene("A run", "The Claude Agent SDK runs a graph; every event arrives over SSE.")
        run_id = await self._run(graph, prompt)
        self.screen.request(f"GET /v1/runs/{run_id}/receipts")
        print_receipts(self.screen.console, await self.client.run_receipts(run_id))

    async def conversation(self) -> None:
        """Two runs with one state key."""
        self.screen.scene("A conversation", "Runs with the same stateKey continue it, in any process.")
        chat = f"demo-{uuid4()}"
        await self._run(ASSISTANT, "My favourite city is Lisbon.", state_key=chat)
        await self._run(ASSISTANT, "What is my favourite city?", state_key=chat)

    async def consent(self) -> None:
        """A tool call that waits for a decision."""
        self.screen.scene("Consent", "A call with an effect outside waits until a person allows it.")
        await self._run(CONCIERGE, "A table for two at eight, please.")

    async def file(self) -> None:
        self.screen.scene("A file", "The agent has its own workspace in a sandbox, and nothing else.")
        try:
            run_id = await self._run(CLERK, "Sum up the orders.", files={FILE: _ORDERS})
        except ServerUnavailable as refused:
            self.screen.remark(f"Left out: {refused.detail} (apt-get install bubblewrap socat)")
            return
        content = await self.client.read_file(run_id, SUMMARY)
        self.screen.remark(f"GET /v1/runs/…/files/{SUMMARY}  {content.decode().strip()!r}", style="green")

    async def subagent(self) -> None:
        """An agent that gives work to another."""
        self.screen.scene(
            "A subagent", "Its events and its costs are attributed to the call that started it."
        )
        await self._run(EDITOR, "What time is it in Delhi?")

    async def cut_stream(self) -> None:
        """A reader whose connection breaks."""
        self.screen.scene("A lost connection", "A run does not need its reader, and a reader misses nothing.")
        self.screen.request("Tell me a story.")
        async with self.client.stream(STORYTELLER, "Tell me a story.") as stream:
            self.runs.append(stream.run_id)
            pieces = 0
            async for event in stream:
                self.screen.event(event)
                pieces += isinstance(event, TextDelta)
                if pieces == _CUT_AFTER:
                    break
        self.screen.remark(f"✂ connection cut after event {stream.last_event_id}; the run goes on")
        await asyncio.sleep(_AWAY_S)
        self.screen.remark(f"GET /v1/runs/…/events  Last-Event-ID: {stream.last_event_id}")
        async with self.client.follow(stream.run_id, after=stream.last_event_id) as rest:
            async for event in rest:
                self.screen.event(event)

    async def killed_server(self) -> None:
        """A server that is killed while the model writes."""
        self.screen.scene(
            "kill -9", "The server dies in the middle of a message. The client just keeps reading."
        )
        self.screen.request("Tell me the story again.")
        async with self.client.stream(
            STORYTELLER, "Tell me the story again.", state_key=f"demo-{uuid4()}"
        ) as stream:
            self.runs.append(stream.run_id)
            pieces = 0
            async for event in stream:
                if isinstance(event, RunStarted) and event.attempt > 0:
                    self.screen.remark("resumed by the new process, as the next attempt of the same run")
                self.screen.event(event)
                pieces += isinstance(event, TextDelta)
                if pieces == _KILL_AFTER:
                    pieces += 1
                    self.screen.remark(f"⚡ kill -9 {await self.server.kill()}")
                    await self.server.start()
            stream.final.raise_for_error()

    async def bill(self) -> None:
        """All messages of the demo beside their receipts."""
        self.screen.scene(
            "The bill", "What the model sent, and what the receipts charge, message by message."
        )
        receipts = [receipt for run in self.runs for receipt in await self.client.run_receipts(run)]
        compared = compare(self.simulator.sent, receipts)
        self.screen.comparison(compared)
        if not all(message.is_equal for message in compared):
            raise ReceiptsDiffer("Receipts and wire differ: see the lines with ≠.")
        self.screen.remark(_summary(compared), style="bold green")

    async def _run(self, graph: str, prompt: str, **options: Unpack[RunOptions]) -> str:
        """Run a graph, allow what it needs consent for, and return the run's id."""
        self.screen.request(prompt)
        async with self.client.stream(graph, prompt, **options) as stream:
            async for event in stream:
                self.screen.event(event)
                if isinstance(event, PermissionRequest):
                    self.screen.remark(f"  POST /v1/runs/…/permissions/{event.request_id}  allow")
                    await stream.decide(event.request_id, allow=True)
            stream.final.raise_for_error()
        self.runs.append(stream.run_id)
        return stream.run_id


def _summary(compared: list[ComparedMessage]) -> str:
    cut = sum(message.is_cut for message in compared)
    text = f"{len(compared)} messages on the wire, {len(compared)} receipts: every number is the same."
    if not cut:
        return text
    return f"{text} {cut} was cut off by kill -9: its output is estimated from what had arrived (≈)."
