"""ToolResult: the result of a tool call."""

from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from runtally.tools.content import ToolContent, ToolText

ToolErrorCode = Literal[
    "unknown_tool",
    "policy_denied",
    "invalid_args",
    "timeout",
    "too_large",
    "failed",
    "tool_server_unavailable",
]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call. The model sees `markdown`, clients see `visible`."""

    markdown: str
    visible: JsonValue
    """The fields the tool allows clients to see, or `{"error": code}`."""
    code: ToolErrorCode | None = None
    content: tuple[ToolContent, ...] = ()
    """What the model sees instead of `markdown`, if it is more than text."""

    @classmethod
    def failed(cls, text: str, code: ToolErrorCode = "failed") -> "ToolResult":
        """The result of a call that failed: the model sees the text, clients see the code."""
        return cls(text, {"error": code}, code)

    @property
    def for_model(self) -> tuple[ToolContent, ...]:
        """What the model sees, without empty texts."""
        if self.content:
            return self.content
        return (ToolText(self.markdown),) if self.markdown.strip() else ()

    @property
    def is_error(self) -> bool:
        """Whether the call failed."""
        return self.code is not None
