from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.gateway.prompt_cache.diagnosis import LOOKBACK_BLOCKS, SentPrompt, find_miss
from app.gateway.prompt_cache.prompt import CachedPrompt
from app.usage.records import CacheMiss
from tests.factories import not_none
from tests.unit.gateway.prompt_cache.prompts import MARK, a_prompt, a_request, text

START = datetime(2026, 11, 22, 12, tzinfo=UTC)
CACHED = 10_000


def miss(
    prompt: CachedPrompt,
    before: CachedPrompt | None = None,
    *,
    read: int = 0,
    of: int = 20_000,
    after_s: float = 10,
) -> CacheMiss | None:
    sent = SentPrompt(before or a_prompt(2), CACHED, START)
    at = START + timedelta(seconds=after_s)
    return find_miss(sent, prompt, read_tokens=read, prompt_tokens=of, at=at)


def cause(*args: Any, **options: Any) -> tuple[str, str | None]:
    found = not_none(miss(*args, **options))
    return found.cause, found.part


def test_what_was_read_as_far_as_it_was_cached_is_no_miss() -> None:
    assert miss(a_prompt(3), read=CACHED) is None
    assert miss(a_prompt(3), read=CACHED + 1) is None


def test_a_miss_is_the_difference_to_what_was_cached() -> None:
    found = miss(a_prompt(3), read=4_000, after_s=7.4)
    assert found == CacheMiss("not_found", None, expected_tokens=CACHED, read_tokens=4_000, idle_s=7)
    assert found.missed_tokens == 6_000


def test_no_more_is_missed_than_the_prompt_has() -> None:
    found = not_none(miss(a_prompt(3), read=100, of=400))
    assert found.missed_tokens == 300


def changed_message(index: int, turns: int = 3) -> CachedPrompt:
    messages = [dict(message) for message in a_request(turns)["messages"]]
    messages[index] = {**messages[index], "content": [text("edited")]}
    return a_prompt(turns, messages=messages)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (a_prompt(3, model="claude-opus-5-5"), ("model", None)),
        (a_prompt(3, tools=[{"name": "one", "input_schema": {}}]), ("changed", "tools[1]")),
        (a_prompt(3, tools=[*a_request()["tools"], {"name": "new"}]), ("changed", "tools[2]")),
        (a_prompt(3, tools=[]), ("changed", "tools[0]")),
        (a_prompt(3, tools=a_request()["tools"][::-1]), ("changed", "tools[0]")),
        (a_prompt(3, system=[text("who"), text("else", **MARK)]), ("changed", "system[1]")),
        (a_prompt(3, system=[text("who")]), ("changed", "system[1]")),
        (a_prompt(3, system=[text("who"), text("what"), text("more", **MARK)]), ("changed", "system[2]")),
        (changed_message(0), ("changed", "messages[0]")),
        (changed_message(2), ("changed", "messages[2]")),
        # Only what was marked could have been read.
        (changed_message(3), ("not_found", None)),
        (a_prompt(3, thinking={"type": "enabled"}), ("parameters", None)),
        (a_prompt(1), ("changed", "messages[1]")),
    ],
)
def test_the_first_change_is_the_cause(prompt: CachedPrompt, expected: tuple[str, str | None]) -> None:
    assert cause(prompt) == expected


def test_a_changed_system_prompt_comes_before_parameters_and_messages_after_them() -> None:
    options: dict[str, Any] = {"thinking": {"type": "enabled"}}
    assert cause(a_prompt(3, system="new", **options)) == ("changed", "system[0]")
    edited = [{"role": "user", "content": "edited"}, *a_request(3)["messages"][1:]]
    assert cause(a_prompt(3, messages=edited, **options)) == ("parameters", None)


@pytest.mark.parametrize(("after_s", "expected"), [(299, "not_found"), (300, "not_found"), (301, "expired")])
def test_an_entry_lives_five_minutes(after_s: float, expected: str) -> None:
    assert cause(a_prompt(3), after_s=after_s) == (expected, None)


def test_a_clock_that_jumps_back_is_no_idle_time() -> None:
    found = not_none(miss(a_prompt(3), after_s=-1000))
    assert (found.cause, found.idle_s) == ("not_found", 0)


def test_the_provider_looks_back_a_limited_number_of_blocks() -> None:
    def long(blocks: int) -> CachedPrompt:
        earlier = a_request(2)["messages"]
        many = [text(str(number)) for number in range(blocks - 1)]
        return a_prompt(messages=[*earlier, {"role": "user", "content": [*many, text("last", **MARK)]}])

    assert cause(long(LOOKBACK_BLOCKS)) == ("not_found", None)
    assert cause(long(LOOKBACK_BLOCKS + 1)) == ("too_far", None)
