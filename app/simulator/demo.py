"""DemoModel: a scripted model for the demo."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.simulator.script import (
    ApiRequest,
    Block,
    Compaction,
    Reply,
    ServerToolResult,
    ServerToolUse,
    Text,
    Thinking,
    ToolUse,
    blocks_of,
    text_of,
)

CHARS_PER_TOKEN = 4
CLOCK = "core__get_current_time"
CALCULATOR = "core__calculate"

_ZONES = {
    "tokyo": "Asia/Tokyo",
    "berlin": "Europe/Berlin",
    "london": "Europe/London",
    "paris": "Europe/Paris",
    "new york": "America/New_York",
    "san francisco": "America/Los_Angeles",
    "sydney": "Australia/Sydney",
    "delhi": "Asia/Kolkata",
}
_TIME_WORDS = re.compile(r"\b(time|date|day|clock|today|now)\b", re.IGNORECASE)
_SEARCHED_CHARS = 1_000
"""The regular expression backtracks: on a long text it would take long."""
_WORD = re.compile(r"[a-z0-9]+")
_PREFIX = "mcp__runtally__"
"""What the SDK puts before the ids of our tools."""

_ARITHMETIC = re.compile(r"\(?-?\d[\d\s.()]*(?:(?:\*\*|//|[-+*/%])[\d\s.()]+)+")


@dataclass(frozen=True, slots=True)
class DemoModel:
    """A responder that calls the time and calculator tools if offered, and otherwise chats."""

    word_delay_s: float = 0.03

    def __call__(self, request: ApiRequest) -> Reply:
        """Answer one request; the usage is computed from the lengths of prompt and answer."""
        blocks = self._blocks(request)
        if _thinks(request):
            blocks = [Thinking("Let me see what is asked and what I can do about it."), *blocks]
        return self.reply(request, blocks)

    def reply(self, request: ApiRequest, blocks: Sequence[Block]) -> Reply:
        prompt_tokens = max(1, len(json.dumps(request.body)) // CHARS_PER_TOKEN)
        return Reply(
            blocks,
            usage={
                "input_tokens": prompt_tokens,
                "output_tokens": 1,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            },
            final_usage={"output_tokens": max(1, _length(blocks) // CHARS_PER_TOKEN)},
            delta_delay_s=self.word_delay_s,
        )

    def _blocks(self, request: ApiRequest) -> list[Block]:
        if (schema := _response_schema(request)) is not None:
            return [ToolUse("StructuredOutput", instance_of(schema))]
        if results := request.tool_results:
            found = "; ".join(text_of(result.get("content", "")) for result in results)
            return [Text(f"Here is what I found: {found.rstrip('.')}. Is there anything else?")]
        text = _last_user_text(request)
        if call := _tool_call(request, text):
            return [Text("Let me look that up."), call]
        return [
            Text(
                f"You wrote: “{text.strip()[:200]}”. I am a simulated model, so this answer follows "
                "a script, but it streams word by word and its tokens are counted like any other's."
            )
        ]


def _tool_call(request: ApiRequest, text: str) -> ToolUse | None:
    clock, calculator = _offered(request, CLOCK), _offered(request, CALCULATOR)
    if clock and _TIME_WORDS.search(text):
        return ToolUse(clock, {"timezone": _zone(text)})
    if calculator and (arithmetic := _ARITHMETIC.search(text[:_SEARCHED_CHARS])):
        return ToolUse(calculator, {"expression": arithmetic.group().strip()})
    return _named_tool(request, text)


def _named_tool(request: ApiRequest, text: str) -> ToolUse | None:
    """Call a tool whose words are all in the text: `shipping__quote` for "A shipping quote, please"."""
    words = set(_WORD.findall(text[:_SEARCHED_CHARS].lower()))
    for offered in request.body.get("tools", []):
        tool_id = offered["name"].removeprefix(_PREFIX)
        if "__" in tool_id and words.issuperset(_WORD.findall(tool_id.lower())):
            return ToolUse(offered["name"], instance_of(offered.get("input_schema", {})))
    return None


def instance_of(schema: dict[str, Any]) -> Any:
    """The smallest value a JSON schema describes, for the keywords schemas usually have."""
    if "const" in schema or schema.get("enum"):
        return schema.get("const", next(iter(schema.get("enum", [])), None))
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: instance_of(properties.get(name, {})) for name in schema.get("required", [])}
    if kind == "array":
        return [instance_of(schema.get("items", {}))] * schema.get("minItems", 0)
    if kind in {"boolean", "null"}:
        return False if kind == "boolean" else None
    if kind in {"integer", "number"}:
        return schema.get("minimum", 0)
    return "simulated".ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]


def _response_schema(request: ApiRequest) -> dict[str, Any] | None:
    tools: list[dict[str, Any]] = request.body.get("tools", [])
    return next((t["input_schema"] for t in tools if t["name"] == "StructuredOutput"), None)


def _thinks(request: ApiRequest) -> bool:
    mode: str = request.body.get("thinking", {}).get("type", "disabled")
    return mode != "disabled" and not request.tool_results


def _offered(request: ApiRequest, tool_id: str) -> str | None:
    return next((name for name in request.tool_names if name.endswith(tool_id)), None)


def _last_user_text(request: ApiRequest) -> str:
    """The last text block of the last user message that is no tool result."""
    for message in reversed(request.messages):
        if message["role"] != "user" or blocks_of(message, "tool_result"):
            continue
        content = message["content"]
        texts = [content] if isinstance(content, str) else [b["text"] for b in blocks_of(message, "text")]
        if texts:
            return str(texts[-1])
    return ""


def _zone(text: str) -> str:
    lowered = text.lower()
    return next((zone for place, zone in _ZONES.items() if place in lowered), "UTC")


def _length(blocks: Sequence[Block]) -> int:
    def one(block: Block) -> int:
        match block:
            case Text():
                return len(block.text)
            case Thinking():
                return len(block.thinking)
            case ToolUse() | ServerToolUse():
                return len(block.name) + len(json.dumps(block.input))
            case ServerToolResult():
                return 0
            case Compaction():
                return len(block.content or "")

    return sum(map(one, blocks))
