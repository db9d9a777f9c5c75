"""ReceivedContent: what has arrived of a streamed message, as text and as an estimate of its tokens; pure.

The estimate is charged if the message never gets its last numbers. It is a lower bound of what the provider
counts wherever one is known, and an approximation elsewhere:

* visible output: a token for each word, or a quarter of the bytes if that is more;
* hidden thinking: its signature and its redacted data contain the encrypted text, in base64;
* the provider's own searches: each that has begun and not failed.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.usage.provider import count_of
from app.usage.records import BYTES_PER_TOKEN

KEPT_BYTES = 8 * 1024 * 1024
"""How much of a streamed response is kept in case it is truncated; tokens of the rest are extrapolated."""

_VISIBLE = ("text", "thinking", "partial_json", "content")
_HIDDEN = ("signature", "data", "encrypted_content")
_BASE64_CHARS, _BASE64_BYTES = 4, 3
_SEARCH, _SEARCH_RESULT, _TOOL_RESULT = "web_search", "web_search_tool_result", "_tool_result"


@dataclass(slots=True)
class _Tokens:
    """The estimate of a part of the content."""

    words: int = 0
    text_bytes: int = 0
    in_word: bool = False
    """Whether the next piece may continue a word."""

    def add(self, text: str) -> None:
        if text:
            self.words += len(text.split()) - (self.in_word and not text[0].isspace())
            self.text_bytes += len(text.encode("utf-8", "replace"))
            self.in_word = not text[-1].isspace()

    @property
    def estimate(self) -> int:
        return max(self.words, math.ceil(self.text_bytes / BYTES_PER_TOKEN))


@dataclass(slots=True)
class ReceivedContent:
    """Feed it the content blocks and deltas of a message."""

    searches: int = 0
    """Searches of the provider that have begun; failed ones, which are not charged, are not counted."""
    _parts: list[str] = field(default_factory=list)
    _visible: _Tokens = field(default_factory=_Tokens)
    _in_block: _Tokens = field(default_factory=_Tokens)
    _hidden_tokens: int = 0
    """Of the blocks before the current one."""
    _announced: int = 0
    """Tokens of hidden thinking in the current block, by the provider's own estimate."""
    _encrypted_chars: int = 0
    """Base64 of the current block."""
    _kept_bytes: int = 0
    _dropped_bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether further deltas are counted by their bytes only: use `skip`."""
        return self._kept_bytes >= KEPT_BYTES

    @property
    def text(self) -> str:
        """Text, thinking and tool input, as far as it is kept."""
        return "".join(self._parts)

    def start_block(self, block: Mapping[str, Any], size: int) -> None:
        """A content block has begun; `size` is that of its event in bytes."""
        self._hidden_tokens += self._hidden_in_block()
        self._in_block, self._announced, self._encrypted_chars = _Tokens(), 0, 0
        self._visible.in_word = False
        kind = block.get("type")
        if kind == "server_tool_use" and block.get("name") == _SEARCH:
            self.searches += 1
        elif kind == _SEARCH_RESULT and not isinstance(block.get("content"), list):
            self.searches = max(0, self.searches - 1)
        if isinstance(kind, str) and kind.endswith(_TOOL_RESULT):
            # What the provider's tools have found is input, not output.
            return
        self.add(block, size)
        if isinstance(block.get("input"), dict) and block["input"]:
            self._keep(json.dumps(block["input"]))

    def add(self, delta: Mapping[str, Any], size: int) -> None:
        """A delta of the current block has arrived."""
        if self.is_full:
            self.skip(size)
            return
        self._kept_bytes += size
        for name in _VISIBLE:
            if isinstance(text := delta.get(name), str):
                self._keep(text)
        for name in _HIDDEN:
            if isinstance(text := delta.get(name), str):
                self._encrypted_chars += len(text)
        self._announced += count_of(delta.get("estimated_tokens")) or 0

    def skip(self, size: int) -> None:
        """A delta has arrived that is not looked at."""
        self._dropped_bytes += size

    def tokens(self, counted: int | None = None) -> int:
        """The tokens of what has arrived; `counted` is the number of those of `text`, if it is known."""
        visible = self._visible.estimate if counted is None else counted
        arrived = visible + self._hidden_tokens + self._hidden_in_block()
        if not self._dropped_bytes:
            return arrived
        if not self._kept_bytes:
            return arrived + math.ceil(self._dropped_bytes / BYTES_PER_TOKEN)
        return math.ceil(arrived * (1 + self._dropped_bytes / self._kept_bytes))

    def _keep(self, text: str) -> None:
        self._parts.append(text)
        self._visible.add(text)
        self._in_block.add(text)

    def _hidden_in_block(self) -> int:
        """Tokens of the current block besides the visible ones, which may be a summary of all."""
        decrypted = self._encrypted_chars * _BASE64_BYTES // _BASE64_CHARS
        all_tokens = max(math.ceil(decrypted / BYTES_PER_TOKEN), self._announced)
        return max(0, all_tokens - self._in_block.estimate)
