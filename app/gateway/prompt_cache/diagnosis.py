"""find_miss: what the provider read again although the request before had it cached, and why; pure."""

from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest

from app.gateway.prompt_cache.prompt import PARTS, CachedPrompt
from app.usage.records import CacheMiss, MissCause

LOOKBACK_BLOCKS = 20
"""How many content blocks before a mark the provider looks for a cached prefix."""


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """A prompt that the provider has answered."""

    prompt: CachedPrompt
    cached_tokens: int
    """Tokens up to its last mark: read from the cache or written to it."""
    at: datetime
    """When the answer began."""


def find_miss(
    previous: SentPrompt, prompt: CachedPrompt, *, read_tokens: int, prompt_tokens: int, at: datetime
) -> CacheMiss | None:
    """The miss of a prompt that follows another; None if everything that was cached before was read.

    `prompt_tokens` are all tokens of the prompt: if it is shorter than what was cached, no more than
    these can be missed.
    """
    expected = min(previous.cached_tokens, prompt_tokens)
    if read_tokens >= expected:
        return None
    cause, part = _cause(previous, prompt, at)
    return CacheMiss(
        cause=cause,
        part=part,
        expected_tokens=expected,
        read_tokens=read_tokens,
        idle_s=max(0, round((at - previous.at).total_seconds())),
    )


def _cause(previous: SentPrompt, prompt: CachedPrompt, at: datetime) -> tuple[MissCause, str | None]:
    before = previous.prompt
    changed = _first_change(before, prompt)
    in_messages = changed is not None and changed.startswith("messages")
    if before.model != prompt.model:
        return "model", None
    if before.parameters != prompt.parameters and (changed is None or in_messages):
        return "parameters", None
    if changed is not None:
        return "changed", changed
    return _cause_of_unchanged(previous, prompt, at), None


def _cause_of_unchanged(previous: SentPrompt, prompt: CachedPrompt, at: datetime) -> MissCause:
    if (at - previous.at).total_seconds() > previous.prompt.ttl_s:
        return "expired"
    if _blocks_between(previous.prompt, prompt) > LOOKBACK_BLOCKS:
        return "too_far"
    return "not_found"


def _first_change(before: CachedPrompt, after: CachedPrompt) -> str | None:
    """The first marked part that is not the same, for example `messages[4]`."""
    marked = list(before.parts)[: before.marked]
    for old, new in zip_longest(marked, list(after.parts)[: before.marked]):
        if old != new:
            # A part may have been added or removed: the change is in the section that comes first.
            name, index, _ = min((each for each in (old, new) if each), key=lambda each: PARTS.index(each[0]))
            return f"{name}[{index}]"
    return None


def _blocks_between(before: CachedPrompt, after: CachedPrompt) -> int:
    """Content blocks of messages between the last mark of each prompt."""
    prefix = len(before.tools) + len(before.system)
    return sum(after.blocks[max(0, before.marked - prefix) : max(0, after.marked - prefix)])
