import asyncio
from typing import Any

from app.gateway.answer_usage import MessageUsage
from app.gateway.web.spec import WebSpec
from app.gateway.web.uses import WebUses
from app.ids import MessageId
from app.usage.records import NOTHING_SPENT, Spent, TokenUsage

SPEC = WebSpec(search=True, fetch=True, max_uses=4)


def a_message(*, searches: int, fetches: int) -> MessageUsage:
    reported = {"server_tool_use": {"web_search_requests": searches, "web_fetch_requests": fetches}}
    usage = TokenUsage(web_search_requests=searches)
    return MessageUsage(MessageId("m"), "model", usage, complete=True, reported=reported)


async def left(uses: WebUses, *, to_subagent: bool = False) -> dict[str, Any]:
    async with uses.granted(to_subagent=to_subagent) as tools:
        return {tool["name"]: tool["max_uses"] for tool in tools}


async def test_what_messages_and_earlier_attempts_have_used_is_gone() -> None:
    messages = {MessageId("m"): a_message(searches=2, fetches=9)}

    assert await left(WebUses(SPEC, messages, NOTHING_SPENT)) == {"web_search": 2}
    assert await left(WebUses(SPEC, messages, Spent(web_uses={"web_search": 2}))) == {}
    assert await left(WebUses(SPEC, {}, Spent(web_uses={"web_fetch": 1}))) == {
        "web_search": 4,
        "web_fetch": 3,
    }
    assert await left(WebUses(None, {}, NOTHING_SPENT)) == {}


async def test_subagents_have_it_if_the_graph_says_so() -> None:
    also = WebUses(SPEC.model_copy(update={"subagents": True, "max_uses": 6}), {}, NOTHING_SPENT)

    assert await left(WebUses(SPEC, {}, NOTHING_SPENT), to_subagent=True) == {}
    # Each call has a part, so that they can work at the same time.
    async with also.granted(to_subagent=False), also.granted(to_subagent=True):
        assert await left(also, to_subagent=True) == {"web_search": 2, "web_fetch": 2}


async def test_calls_at_the_same_time_share_what_is_left() -> None:
    messages: dict[MessageId, MessageUsage] = {}
    uses = WebUses(SPEC, messages, NOTHING_SPENT)
    async with uses.granted(to_subagent=False):
        other = asyncio.create_task(left(uses))
        await asyncio.sleep(0)
        assert not other.done()
        messages[MessageId("m")] = a_message(searches=4, fetches=1)

    assert await other == {"web_fetch": 3}
