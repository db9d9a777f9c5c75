"""How much of what an MCP server says is held at once."""

import re
from dataclasses import dataclass

from app.large_json import count_parts

_PROTOCOL_BYTES = 1024 * 1024
"""For a page of tools with their schemas, and for what is wrapped around a result."""
MAX_VALUES = 30_000
"""In one answer: a megabyte of empty lists takes seconds to read, and a hundred to hold."""
_STRINGS = re.compile(rb'"[^"\\\r\n]*+(?:\\.[^"\\\r\n]*+)*+(?:"|\\?[\r\n]|\\?\Z)')
"""Strings, and what would be one but for its end: it matches wherever there is a quotation mark."""
_ESCAPED = 2
"""How much longer a text may be as JSON, without being refused."""


@dataclass(slots=True)
class ResponseLimit:
    """The most one answer of a server may hold, and whether one wanted to hold more."""

    max_bytes: int
    exceeded: bool = False

    @classmethod
    def of_results(cls, max_result_bytes: int) -> "ResponseLimit":
        """So that every result that may be as long as this fits."""
        return cls(_PROTOCOL_BYTES + _ESCAPED * max_result_bytes)

    def take_exceeded(self) -> bool:
        """Whether an answer was too large since this was last asked."""
        exceeded, self.exceeded = self.exceeded, False
        return exceeded


def count_values(text: bytes | bytearray) -> int:
    """How many values JSON in these lines holds, or could be made to hold, in one pass."""
    return count_parts(_STRINGS.sub(b"", text))
