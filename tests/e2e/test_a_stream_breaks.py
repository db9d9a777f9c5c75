"""Wherever a stream breaks, both executors make the fewest calls that can give the answer.

`tests/integration/test_how_a_stream_ends.py` has every event and every way to break.
"""

from collections.abc import Iterable
from typing import Any

from app.executors.claude_agent.tools.names import tool_id_of
from app.simulator.script import Block, Reply, Text, ToolUse, in_turn
from tests.breaking_provider import Break, BreakingProvider, a_breaking_provider, frames_of
from tests.e2e.agents import CLAUDE, every_agent, every_agent_at_length
from tests.e2e.stories import CLOCK, World, WorldOf, a_request, said

FIRST, REST = ("msg_1", "final", 20), ("msg_2", "final", 30)
CUT = ("msg_1", "partial")
PROMPT = ("unanswered-1", "partial")

CASES: dict[str, tuple[str, int, Break, int, list[tuple[Any, ...]]]] = {
    "before the message": ("text", 0, "close", 2, [PROMPT, REST]),
    "an error instead of a message": ("text", 0, "error", 2, [REST]),
    "after its start": ("text", 2, "end", 2, [CUT, REST]),
    "within a block": ("text", 4, "error", 2, [CUT, REST]),
    "after a block": ("text", 6, "reset", 2, [CUT, REST]),
    "after a tool call": ("call", 8, "reset", 2, [CUT, REST]),
    "after the last numbers": ("text", 7, "close", 1, [FIRST]),
    "after the last numbers, an error": ("text", 7, "error", 1, [FIRST]),
    "after the last numbers of a tool call": ("call", 9, "close", 2, [FIRST, REST]),
    "after the message": ("text", 8, "reset", 1, [FIRST]),
}
"""What is answered first, after how many events it breaks and how: the calls, and the receipts."""


def frames_for(agent: str, kind: str) -> list[bytes]:
    tool = CLOCK if agent == CLAUDE else tool_id_of(CLOCK)
    blocks: list[Block] = [Text("one two")]
    if kind == "call":
        blocks = [Text("one"), ToolUse(tool, {}, "toolu_1")]
    return frames_of(Reply(blocks, message_id="msg_1", final_usage={"output_tokens": 20}))


async def answered(
    world: World, provider: BreakingProvider, first: Iterable[bytes], ending: Break
) -> tuple[str, list[tuple[Any, ...]], int]:
    """What a run says, its receipts, and how many messages the meters disagree about."""
    provider.breaks(first, ending)
    events = await world.run(a_request())
    run_id = events[0].data["runId"]
    billing = (await world.http.get(f"/v1/runs/{run_id}")).json()["billing"]
    receipts = [
        (each["usageUnitId"], each["basis"], *([each["outputTokens"]] if each["basis"] == "final" else []))
        for each in await world.receipts(run_id)
    ]
    assert events[-1].data["finishReason"] == "stop", provider
    return said(events), receipts, billing["drift"]


@every_agent_at_length
async def test_the_fewest_calls_are_made_and_each_message_is_billed(world_of: WorldOf, agent: str) -> None:
    async with a_breaking_provider() as provider:
        world = await world_of(in_turn(), ANTHROPIC_BASE_URL=provider.url)
        for case, (kind, events, ending, calls, receipts) in CASES.items():
            text, billed, drift = await answered(world, provider, frames_for(agent, kind)[:events], ending)

            assert (provider.calls, billed, drift) == (calls, receipts, 0), case
            assert text.endswith("the rest" if calls > 1 else "one two"), case


@every_agent
async def test_a_second_message_in_a_response_is_an_alarm_and_no_charge(
    world_of: WorldOf, agent: str
) -> None:
    async with a_breaking_provider() as provider:
        world = await world_of(in_turn(), ANTHROPIC_BASE_URL=provider.url)
        begun, *others = frames_for(agent, "text")
        frames = [begun, begun.replace(b"msg_1", b"msg_9"), *others]

        _, billed, drift = await answered(world, provider, frames, "end")

        assert (billed, drift) == ([FIRST], 1)
