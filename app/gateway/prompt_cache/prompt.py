"""CachedPrompt: a prompt as hashes of its parts, to find the first part that another one changed; pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import takewhile
from typing import Any, Literal, TypeAlias

from pydantic_core import from_json, to_json

from app.platform.serialization.large_json import count_parts
from app.storable import identifier
from app.usage.records import UNKNOWN_MODEL

Part: TypeAlias = Literal["tools", "system", "messages"]
PARTS: tuple[Part, ...] = ("tools", "system", "messages")
"""In the order in which the provider caches them: a change makes everything behind it new."""

MOST_PARTS = 500_000
"""Commas and opening brackets: the gateway refuses larger prompts."""

_HASH_BYTES = 6
_SHORT_TTL_S, _LONG_TTL_S = 300, 3600
_NO_PARAMETERS = {*PARTS, "model", "max_tokens", "metadata", "stream", "temperature", "top_p", "top_k"}
"""Keys of a request that do not decide whether its messages are found; all others might."""


@dataclass(frozen=True, slots=True)
class CachedPrompt:
    """What a request contains, without the marks up to which it is cached."""

    model: str
    parameters: str
    """Hash of everything else that decides what is found, such as `thinking` and `tool_choice`."""
    tools: tuple[str, ...]
    system: tuple[str, ...]
    messages: tuple[str, ...]
    blocks: tuple[int, ...]
    """The number of content blocks of each message."""
    marked: int
    """How many tools, system blocks and messages together are before the last mark; 0: no mark."""
    ttl_s: int = _SHORT_TTL_S
    """How long the marked part is kept after its last use."""

    @property
    def parts(self) -> Iterator[tuple[Part, int, str]]:
        """Every tool, system block and message with its index and hash, in the order of the cache."""
        for name in PARTS:
            for index, digest in enumerate(getattr(self, name)):
                yield name, index, digest

    def messages_shared_with(self, other: "CachedPrompt") -> int:
        """The number of equal messages at the beginning."""
        pairs = zip(self.messages, other.messages, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


@dataclass(frozen=True, slots=True)
class AgentPrompt:
    """A prompt and the agent that sends it."""

    agent: str
    """The id of a subagent; empty for the main agent."""
    prompt: CachedPrompt | None
    """None if the request cannot be read."""


def read_request(body: bytes) -> dict[str, Any] | None:
    """A request of the Messages API; None if it cannot be read."""
    if count_parts(body) > MOST_PARTS:
        return None
    try:
        request = from_json(body)
    except ValueError:
        return None
    return request if isinstance(request, dict) else None


def cached_prompt(request: Mapping[str, Any]) -> CachedPrompt:
    """The prompt of a request."""
    tools, system, messages = (_blocks(request.get(name)) for name in PARTS)
    marks: list[tuple[int, Any]] = []
    for position, part in enumerate((*tools, *system, *messages), start=1):
        marks += [(position, mark) for mark in _marks(part)]
    model = request.get("model")
    last, mark = marks[-1] if marks else (0, None)
    parameters = {name: value for name, value in sorted(request.items()) if name not in _NO_PARAMETERS}
    return CachedPrompt(
        model=identifier(model) if isinstance(model, str) and model else UNKNOWN_MODEL,
        parameters=_digest(parameters),
        tools=tuple(_digest(_unmarked(tool)) for tool in tools),
        system=tuple(_digest(_unmarked(block)) for block in system),
        messages=tuple(_digest(_unmarked(message)) for message in messages),
        blocks=tuple(len(_blocks(_content(message))) for message in messages),
        marked=last,
        ttl_s=_LONG_TTL_S if isinstance(mark, dict) and mark.get("ttl") == "1h" else _SHORT_TTL_S,
    )


def _blocks(value: Any) -> list[Any]:
    """A list of blocks; the provider takes a text as one block."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return value if isinstance(value, list) else []


def _content(part: Any) -> Any:
    return part.get("content") if isinstance(part, dict) else None


def _marks(part: Any) -> Iterator[Any]:
    if isinstance(part, dict):
        for block in _blocks(part.get("content")):
            yield from _marks(block)
        if part.get("cache_control") is not None:
            yield part["cache_control"]


def _unmarked(part: Any) -> Any:
    """The part without marks, which move from request to request."""
    if not isinstance(part, dict):
        return part
    kept = {name: value for name, value in part.items() if name != "cache_control"}
    if "content" in kept:
        kept["content"] = [_unmarked(block) for block in _blocks(kept["content"])]
    return kept


def _digest(value: Any) -> str:
    try:
        text = to_json(value)
    except ValueError:
        # Lone surrogates.
        text = json.dumps(value).encode()
    return blake2b(text, digest_size=_HASH_BYTES).hexdigest()
