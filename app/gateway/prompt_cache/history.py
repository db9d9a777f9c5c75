"""PromptHistory: the prompts of a run's agents, and of the conversation that the run continues; pure."""

from collections import defaultdict, deque
from datetime import datetime

from app.gateway.prompt_cache.diagnosis import SentPrompt, find_miss
from app.gateway.prompt_cache.prompt import AgentPrompt, CachedPrompt
from app.usage.provider import Reported, sampled_counts
from app.usage.records import CacheMiss, TokenUsage

MOST_AGENTS = 64
"""Agents of one run whose prompts are kept; the names are chosen by the agent process."""

_KEPT_PROMPTS = 4
"""Kept of each agent: a call that the CLI makes beside the conversation must not hide the one before it."""


class PromptHistory:
    """Finds for each prompt the one that it continues."""

    def __init__(self) -> None:
        self._sent: defaultdict[str, deque[SentPrompt]] = defaultdict(lambda: deque(maxlen=_KEPT_PROMPTS))

    def continue_from(self, before: SentPrompt | None) -> None:
        """Begin with the last prompt of the conversation's main agent; also later, once it was looked up."""
        if before is not None:
            self._sent[""].appendleft(before)

    @property
    def last(self) -> SentPrompt | None:
        """The longest of the main agent's last prompts, the newest of equals: the next turn continues it."""
        return max(self._sent[""], key=lambda sent: (len(sent.prompt.messages), sent.at), default=None)

    def add(
        self, sent: AgentPrompt, usage: TokenUsage, reported: Reported, *, at: datetime
    ) -> CacheMiss | None:
        """Add the prompt of an answered call; returns what it did not find of the prompt before it."""
        if sent.prompt is None or (sent.agent not in self._sent and len(self._sent) >= MOST_AGENTS):
            return None
        earlier = self._sent[sent.agent]
        previous = _continued(earlier, sent.prompt)
        counts = sampled_counts(reported, usage)
        first, last = counts[0], counts[-1]
        earlier.append(SentPrompt(sent.prompt, last.prompt_tokens - last.input_tokens, at))
        if previous is None:
            return None
        return find_miss(
            previous,
            sent.prompt,
            read_tokens=first.cache_read_tokens,
            prompt_tokens=first.prompt_tokens,
            at=at,
        )


def _continued(sent: deque[SentPrompt], prompt: CachedPrompt) -> SentPrompt | None:
    """The prompt that this one continues: the most similar one that it can be an extension or edit of."""

    def similarity(number: int) -> tuple[int, bool, int]:
        other = sent[number].prompt
        return (
            other.messages_shared_with(prompt),
            (other.tools, other.system) == (prompt.tools, prompt.system),
            number,
        )

    candidates = [number for number, each in enumerate(sent) if _may_continue(each.prompt, prompt)]
    return sent[max(candidates, key=similarity)] if candidates else None


def _may_continue(before: CachedPrompt, prompt: CachedPrompt) -> bool:
    longer = len(prompt.messages) > len(before.messages)
    return longer or before.messages_shared_with(prompt) > 0
