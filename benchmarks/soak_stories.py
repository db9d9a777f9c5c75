"""The clients of a soak: what they do with a server, and the model that answers them."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import httpx_sse

from app.simulator.demo import DemoModel
from app.simulator.script import ApiRequest, Reply
from benchmarks.servers import client
from benchmarks.variants import MODEL

CLAUDE, MESSAGES = "claude_agents", "messages"
SLOWLY = "slowly"

_STORIES = ("alone", "turn", "turn", "turn", "turn, cancelled", "turn, then deleted", "cancelled", "left")
_EXPECTED = {"cancelled": {"stop", "aborted"}, "turn, cancelled": {"stop", "aborted"}, "left": {"left"}}
"""How a story may end; the others with "stop"."""

_CONVERSATIONS = 10
"""Of each executor: more than processes are kept."""

_PROMPTS = ("Say something short.", "What time is it in Tokyo?", "What is 6 * 7?")
_WORKERS = 8
_SLOW_DELTA_S = 0.05
_demo = DemoModel(word_delay_s=0)


def model(request: ApiRequest) -> Reply:
    """Answers, with tool calls if a prompt needs them; slowly if it says so."""
    reply = _demo(request)
    return replace(reply, delta_delay_s=_SLOW_DELTA_S) if SLOWLY in request.last_text else reply


@dataclass(slots=True)
class Clients:
    """Several clients that choose at random what they do next."""

    url: str
    key: str
    random: random.Random
    cli_share: float
    """Of all runs, those of the executor with the CLI."""
    runs: int = 0
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often which story ended how."""
    _conversations: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    @property
    def failures(self) -> list[str]:
        """The stories that did not end as they should."""
        return [
            f"{count} runs of {story!r} ended with {end!r}"
            for (story, end), count in sorted(self.ends.items())
            if end not in _EXPECTED.get(story, {"stop"})
        ]

    async def run(self, runs: int) -> None:
        """Execute so many runs."""
        left = iter(range(runs))
        async with client(self.url, self.key) as http:

            async def one_after_the_other() -> None:
                for _ in left:
                    await self._one(http)

            await asyncio.gather(*(one_after_the_other() for _ in range(_WORKERS)))

    async def delete_conversations(self) -> None:
        """Delete every conversation that there is."""
        async with client(self.url, self.key) as http:
            for state_key in self._conversations:
                await _delete(http, state_key)

    async def _one(self, http: httpx.AsyncClient) -> None:
        agent = CLAUDE if self.random.random() < self.cli_share else MESSAGES
        story = self.random.choice(_STORIES)
        state_key = f"{agent}-{self.random.randrange(_CONVERSATIONS)}"
        body: dict[str, Any] = {
            "runId": f"soak-{self.runs}",
            "graphId": f"{agent}:assistant",
            "model": MODEL,
            "messages": [{"role": "user", "content": self.random.choice(_PROMPTS)}],
        }
        self.runs += 1
        match story:
            case "alone":
                end = await _read(http, body)
            case "cancelled":
                end = await _read(http, _slow(body), then_cancel=True)
            case "left":
                end = await _read(http, _slow(body), then_leave=True)
            case _:
                # One turn at a time: what happens to turns that wait is tested elsewhere.
                then_cancel = story == "turn, cancelled"
                turn = {**(_slow(body) if then_cancel else body), "stateKey": state_key}
                async with self._conversations[state_key]:
                    end = await _read(http, turn, then_cancel=then_cancel)
                    if story == "turn, then deleted":
                        await _delete(http, state_key)
        self.ends[story, end] += 1


def _slow(body: Mapping[str, Any]) -> dict[str, Any]:
    return {**body, "messages": [{"role": "user", "content": f"Answer {SLOWLY}."}]}


async def _read(
    http: httpx.AsyncClient,
    body: Mapping[str, Any],
    *,
    then_cancel: bool = False,
    then_leave: bool = False,
) -> str:
    """Read a run to its end, or `then_…` at the first text; returns how it ended."""
    async with httpx_sse.aconnect_sse(http, "POST", "/v1/runs/stream", json=body) as source:
        if not source.response.is_success:
            return f"{source.response.status_code}"
        async for event in source.aiter_sse():
            if event.event == "text_delta" and then_leave:
                return "left"
            if event.event == "text_delta" and then_cancel:
                then_cancel = False
                await http.post(f"/v1/runs/{body['runId']}/cancel")
            if event.event == "done":
                return str(event.json()["finishReason"])
    return "cut off"


async def _delete(http: httpx.AsyncClient, state_key: str) -> None:
    response = await http.delete(f"/v1/sessions/{state_key}")
    if response.status_code != httpx.codes.NOT_FOUND:
        response.raise_for_status()
