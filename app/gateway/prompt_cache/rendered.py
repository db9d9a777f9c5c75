"""PromptEvidence: what the requests of a run's agents contained, as JSON for operators."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from app.gateway.prompt_cache.history import MOST_AGENTS
from app.gateway.prompt_cache.prompt import PARTS, CachedPrompt
from app.platform.serialization.stored_json import dump_json

_DATA: Final = "base64"


@dataclass(frozen=True, slots=True)
class PromptEvidence:
    """The prompts of one run; each only with what the one before it of the same agent had not."""

    add: Callable[[str], None]
    """Gets the JSON of one; called on the event loop."""
    _last: dict[str, CachedPrompt] = field(default_factory=dict)

    def render(self, request: Mapping[str, Any], prompt: CachedPrompt, *, agent: str) -> str:
        """The JSON of a request that was answered; may be called in a thread."""
        before = self._last.get(agent)
        # The names are chosen by the agent's process.
        if before is not None or len(self._last) < MOST_AGENTS:
            self._last[agent] = prompt
        return rendered_prompt(request, prompt, before, agent=agent)


def rendered_prompt(
    request: Mapping[str, Any], prompt: CachedPrompt, before: CachedPrompt | None, *, agent: str
) -> str:
    """The request without what `before`, the agent's last one, has in the same place.

    Attachments, which only messages have, are replaced by their sizes and hashes: clients keep them, and each
    may have megabytes.
    """
    rendered: dict[str, Any] = {"agent": agent or None}
    rendered["parameters"] = {name: value for name, value in request.items() if name not in PARTS}
    rendered["firstMessage"] = known = 0 if before is None else before.messages_shared_with(prompt)
    for name in ("system", "tools"):
        if before is None or getattr(before, name) != getattr(prompt, name):
            rendered[name] = request.get(name)
    messages = request.get("messages")
    rendered["messages"] = _without_data(messages[known:] if isinstance(messages, list) else [])
    return dump_json(rendered)


def _without_data(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_data(each) for each in value]
    if not isinstance(value, dict):
        return value
    data = value.get("data")
    if value.get("type") == _DATA and isinstance(data, str):
        sha256 = hashlib.sha256(data.encode(errors="replace")).hexdigest()
        return {**value, "data": None, "encodedBytes": len(data), "encodedSha256": sha256}
    return {name: _without_data(each) for name, each in value.items()}
