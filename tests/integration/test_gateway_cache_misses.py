"""The gateway compares a prompt with the one before it, and records why the provider did not find it."""

from typing import Any

import httpx
import pytest

from app.simulator.script import HttpError, Reply, Text, in_turn
from app.usage.records import CacheMiss
from tests.integration.gateway_seam import AGENTS, Seam, the_seam
from tests.unit.gateway.prompt_cache.prompts import a_request


def reply(*, read: int = 0, written: int = 0, **fields: Any) -> Reply:
    usage = {"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": read}
    return Reply([Text("hello")], usage={**usage, "cache_creation_input_tokens": written}, **fields)


async def send(seam: Seam, request: dict[str, Any], *, agent: str | None = None) -> None:
    headers = AGENTS if agent is None else {**AGENTS, "x-claude-code-agent-id": agent}
    await seam.agent.post(f"{seam.channel.url}/v1/messages", json=request, headers=headers)


def misses(seam: Seam) -> list[CacheMiss | None]:
    return [message.cache_miss for message in seam.noted.closed]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("padding", ["", "x" * 100_000], ids=["short", "long"])
async def test_a_miss_is_recorded_with_its_cause(*, stream: bool, padding: str) -> None:
    answers = in_turn(reply(written=1000), reply(read=1000), reply(read=400, written=700))
    async with the_seam(answers) as seam:
        for turns, system in ((1, "one"), (2, "one"), (3, "two")):
            await send(seam, a_request(turns, stream=stream, system=f"{system}{padding}"))

        miss = CacheMiss("changed", "system[0]", expected_tokens=1000, read_tokens=400, idle_s=0)
        assert misses(seam) == [None, None, miss]


async def test_each_agent_has_its_own_prompts() -> None:
    answers = in_turn(reply(written=1000), reply(written=50), reply(read=50), reply(read=1000))
    async with the_seam(answers) as seam:
        for turns, agent in ((1, None), (1, "a1"), (2, "a1"), (2, None)):
            await send(seam, a_request(turns), agent=agent)

        assert misses(seam) == [None] * 4


async def test_a_refused_prompt_was_never_cached() -> None:
    answers = in_turn(reply(written=1000), HttpError(400), reply(read=1000))
    async with the_seam(answers) as seam:
        for turns, system in ((1, "one"), (2, "two"), (2, "one")):
            await send(seam, a_request(turns, system=system))

        assert misses(seam) == [None, None]


async def test_a_cut_message_has_cached_its_prompt() -> None:
    answers = in_turn(reply(written=1000, cut_after=3), reply(read=0, written=1200))
    async with the_seam(answers) as seam:
        with pytest.raises(httpx.RemoteProtocolError):
            await send(seam, a_request(1))
        await send(seam, a_request(2))

        found = misses(seam)[-1]
        assert found is not None
        assert (found.cause, found.missed_tokens) == ("not_found", 1000)
