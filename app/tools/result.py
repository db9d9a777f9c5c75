"""ToolResult: the result of a tool call."""

from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

ToolErrorCode = Literal["unknown_tool", "policy_denied", "invalid_args", "timeout", "too_large", "failed"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call. The model sees `markdown`, clients see `visible`."""

    markdown: str
    visible: JsonValue
    """The fields the tool allows clients to see, or `{"error": code}`."""
    code: ToolErrorCode | None = None

    @property
    def is_error(self) -> bool:
        """Whether the call failed."""
        return self.code is not None
