"""Requests of a conversation that a provider caches."""

import json
from typing import Any

from app.gateway.prompt_cache.prompt import CachedPrompt, cached_prompt, read_request

MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **fields}


def a_request(turns: int = 1, **fields: Any) -> dict[str, Any]:
    """The request of a turn, marked as the CLI does: the system prompt and the last message."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        messages.append({"role": "user", "content": [text(f"question {turn}")]})
        messages.append({"role": "assistant", "content": [text(f"answer {turn}")]})
    *earlier, last = messages[:-1]
    last = {**last, "content": [{**last["content"][0], **MARK}]}
    request = {
        "model": "claude-sonnet-4-6",
        "max_tokens": 100,
        "stream": True,
        "tools": [{"name": "one", "input_schema": {}}, {"name": "two", "input_schema": {}}],
        "system": [text("who"), text("what", **MARK)],
        "messages": [*earlier, last],
        "thinking": {"type": "disabled"},
    }
    return {**request, **fields}


def a_prompt(turns: int = 1, **fields: Any) -> CachedPrompt:
    request = read_request(json.dumps(a_request(turns, **fields)).encode())
    assert request is not None
    return cached_prompt(request)
