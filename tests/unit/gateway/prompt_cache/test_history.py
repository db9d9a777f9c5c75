from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import TypeAdapter

from app.gateway.prompt_cache.diagnosis import SentPrompt
from app.gateway.prompt_cache.history import MOST_AGENTS, PromptHistory
from app.gateway.prompt_cache.prompt import AgentPrompt, CachedPrompt
from app.usage.records import CacheMiss, TokenUsage
from tests.factories import not_none
from tests.unit.gateway.prompt_cache.prompts import MARK, a_prompt, text

START = datetime(2026, 11, 22, 12, tzinfo=UTC)


class Conversation:
    """Adds prompts, a second apart."""

    def __init__(self) -> None:
        self.history = PromptHistory()
        self.at = START

    def add(
        self,
        prompt: CachedPrompt | None,
        *,
        read: int = 0,
        written: int = 0,
        agent: str = "",
        reported: dict[str, Any] | None = None,
    ) -> CacheMiss | None:
        self.at += timedelta(seconds=1)
        usage = TokenUsage(input_tokens=10, cache_read_tokens=read, cache_write_5m_tokens=written)
        return self.history.add(AgentPrompt(agent, prompt), usage, reported or {}, at=self.at)


def test_a_prompt_is_compared_with_the_one_it_continues() -> None:
    chat = Conversation()
    assert chat.add(a_prompt(1), written=1000) is None
    assert chat.add(a_prompt(2), read=1000, written=200) is None
    found = chat.add(a_prompt(3), read=1000, written=400)
    assert found == CacheMiss("not_found", None, expected_tokens=1200, read_tokens=1000, idle_s=1)


def test_nothing_was_cached_before_the_first_and_without_marks() -> None:
    chat = Conversation()
    assert chat.add(a_prompt(1)) is None
    assert chat.add(a_prompt(2)) is None


def test_a_call_beside_the_conversation_does_not_hide_it() -> None:
    chat = Conversation()
    chat.add(a_prompt(2), written=1000)
    search = a_prompt(1, system="search", tools=[], messages=[{"role": "user", "content": "find"}])
    assert chat.add(search) is None
    found = not_none(chat.add(a_prompt(3), read=0, written=1500))
    assert (found.cause, found.expected_tokens) == ("not_found", 1000)


def test_a_conversation_whose_first_message_changed_is_still_the_same() -> None:
    chat = Conversation()
    chat.add(a_prompt(1), written=1000)
    reminded = [{"role": "user", "content": [text(f"today {n}", **MARK)]} for n in range(3)]
    found = not_none(chat.add(a_prompt(messages=reminded), written=1000))
    assert (found.cause, found.part) == ("changed", "messages[0]")


def test_an_edited_turn_continues_what_it_has_in_common() -> None:
    chat = Conversation()
    chat.add(a_prompt(2), written=1000)
    found = not_none(chat.add(a_prompt(1), read=400, written=300))
    assert (found.part, found.missed_tokens) == ("messages[1]", 310)


def test_agents_have_prompts_of_their_own() -> None:
    chat = Conversation()
    chat.add(a_prompt(1), written=1000)
    assert chat.add(a_prompt(2), written=500, agent="a1") is None
    found = not_none(chat.add(a_prompt(3), agent="a1"))
    assert found.expected_tokens == 10
    assert chat.add(a_prompt(2), read=1000) is None
    assert chat.history.last is not None
    assert len(chat.history.last.prompt.messages) == 3


def test_the_number_of_agents_is_limited() -> None:
    chat = Conversation()
    for number in range(MOST_AGENTS + 10):
        chat.add(a_prompt(1), written=1000, agent=f"a{number}")
    assert chat.add(a_prompt(2), agent="a5") is not None
    assert chat.add(a_prompt(2), agent=f"a{MOST_AGENTS + 5}") is None


def test_what_cannot_be_read_is_no_part_of_it() -> None:
    chat = Conversation()
    chat.add(a_prompt(1), written=1000)
    assert chat.add(None) is None
    assert chat.add(a_prompt(2), read=1000) is None


def test_a_message_that_read_its_prompt_twice_counts_it_once() -> None:
    def twice(first: int, second: int) -> dict[str, Any]:
        counts = [{"cache_read_input_tokens": first}, {"cache_read_input_tokens": second}]
        return {"iterations": [{"type": "message", "input_tokens": 5, **each} for each in counts]}

    chat = Conversation()
    chat.add(a_prompt(1), read=3000, reported=twice(1000, 2000))
    assert chat.add(a_prompt(2), read=4100, reported=twice(2000, 2100)) is None
    found = not_none(chat.add(a_prompt(3), read=4100, reported=twice(2000, 2100)))
    assert (found.expected_tokens, found.read_tokens) == (2005, 2000)


def test_the_next_run_continues_the_longest_of_the_last_prompts() -> None:
    chat = Conversation()
    assert chat.history.last is None
    chat.add(a_prompt(2), written=1000)
    chat.add(a_prompt(1, system="search"))
    adapter = TypeAdapter(SentPrompt)
    last: SentPrompt = not_none(chat.history.last)
    stored = adapter.dump_python(last, mode="json")

    next_run = Conversation()
    next_run.history.continue_from(adapter.validate_python(stored))
    found = not_none(next_run.add(a_prompt(3, tools=[])))
    assert (found.cause, found.part, found.expected_tokens) == ("changed", "tools[0]", 10)
