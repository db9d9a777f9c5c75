"""Limits on the responses of MCP servers."""

import asyncio
import re
from dataclasses import dataclass

from app.platform.serialization.large_json import count_parts
from app.platform.serialization.repaired_json import parsable
from app.tools.mcp.spec import ContentLimits

_PROTOCOL_BYTES = 1024 * 1024
"""For a page of tools with their schemas, and for the protocol around a result."""
MAX_VALUES = 30_000
"""In one response: a megabyte of empty lists takes seconds to parse, and a hundred megabytes of memory."""
_SMALL_BYTES = 256 * 1024
"""Up to this size a message is read on the event loop: that takes some milliseconds."""
_STRINGS = re.compile(rb'"[^"\\\r\n]*+(?:\\.[^"\\\r\n]*+)*+(?:"|\\?[\r\n]|\\?\Z)')
"""Strings, including unterminated ones: it matches at every quotation mark."""
_ESCAPED = 2
"""How many times longer a text may be as JSON."""


@dataclass(slots=True)
class ResponseLimit:
    """The size limit of one response, and whether it was exceeded."""

    max_bytes: int
    exceeded: bool = False

    @classmethod
    def of_results(cls, limits: ContentLimits) -> "ResponseLimit":
        """A limit for results within these limits, with some room for what is left out of them."""
        return cls(_PROTOCOL_BYTES + _ESCAPED * (limits.text_bytes + limits.image_bytes))

    def take_exceeded(self) -> bool:
        """Whether a response was too large since the last call."""
        exceeded, self.exceeded = self.exceeded, False
        return exceeded


def count_values(text: bytes | bytearray) -> int:
    """How many JSON values these lines contain at most, in one pass."""
    return count_parts(_STRINGS.sub(b"", text))


async def read_json(text: bytes) -> tuple[bytes, int]:
    """These lines as JSON that can be parsed, and how many values they contain at most.

    Without the JSON if these are too many.
    """
    return await asyncio.to_thread(_read, text) if len(text) > _SMALL_BYTES else _read(text)


def _read(text: bytes) -> tuple[bytes, int]:
    values = count_values(text)
    return b"" if values > MAX_VALUES else parsable(text), values
