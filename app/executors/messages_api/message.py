"""MessageFold: the events of one streamed message -> its content, usage and our events; pure."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.events import OutputEvent, TextDelta, ThinkingDelta, ToolCallStart
from app.executors.api_format.stream import DeltaMapper
from app.executors.api_format.tool_content import ModelToolCall
from app.ids import new_uuid
from app.requests.client_tools import is_client_tool
from app.storable import identifier, storable
from app.usage.provider import clean_usage, highest_usage, merge_usage, token_usage
from app.usage.records import TokenUsage

_TEXTS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_REPLACED = {"signature_delta": ("signature",), "compaction_delta": ("content", "encrypted_content")}

_SUMMARY = "compaction"
"""The type of the block, and the reason to stop after it."""

_CALL_ID = re.compile(r"[\w-]{1,200}", re.ASCII)
"""What the API accepts as the id of a tool call."""


class MessageMalformed(Exception):
    """The events of a message are not those of the API."""


@dataclass(slots=True)
class _Block:
    block: dict[str, Any]
    parts: list[str] = field(default_factory=list)
    is_complete: bool = False

    @property
    def text(self) -> str:
        return str(self.block.get("text") or "") + "".join(self.parts)

    @property
    def kind(self) -> str:
        return str(self.block["type"])


@dataclass(slots=True)
class MessageFold:
    """Feed it the events of a message in order; each call yields the events that clients get."""

    deltas: DeltaMapper
    call_ids: set[str] = field(default_factory=set)
    """The ids of the conversation's tool calls; those of this message are added. An id that the API would not
    accept, or that is in use, is replaced."""
    message_id: str = ""
    stop_reason: str | None = None
    """Why the message ended; None until then."""
    tool_uses: list[ModelToolCall] = field(default_factory=list)
    """The complete tool calls."""
    _usage: dict[str, Any] = field(default_factory=dict)
    _blocks: dict[int, _Block] = field(default_factory=dict)
    _has_begun: bool = False
    is_shown: bool = False
    """Whether clients have got text or thinking of it."""

    @property
    def usage(self) -> TokenUsage:
        """The tokens as the stream reports them."""
        return token_usage(self._usage)

    @property
    def summary(self) -> dict[str, Any] | None:
        """The block with the summary; None if there is none, or the provider failed to make it."""
        found = [each.block for each in self._blocks.values() if each.kind == _SUMMARY and each.is_complete]
        return found[0] if found and found[0].get("content") else None

    @property
    def is_summary(self) -> bool:
        """Whether it is the provider's summary of the conversation, instead of an answer."""
        if self.stop_reason is None:
            return any(each.kind == _SUMMARY for each in self._blocks.values())
        return self.stop_reason == _SUMMARY

    @property
    def text(self) -> str:
        """Its text as far as it has arrived."""
        return "".join(each.text for each in self._blocks.values() if each.kind == "text")

    def content(self) -> list[dict[str, Any]]:
        """Its blocks but for a summary, to be sent back; of a message cut off what the API accepts."""
        return [
            block
            for each in self._blocks.values()
            if each.kind != _SUMMARY and (each.is_complete or each.kind == "text")
            if (block := _finished(each)) is not None
        ]

    def feed(self, event: Mapping[str, Any]) -> Iterator[OutputEvent]:
        """The events of one event of the API; raises `MessageMalformed`."""
        try:
            for ours in self._feed(event):
                self.is_shown |= isinstance(ours, TextDelta | ThinkingDelta)
                yield ours
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise MessageMalformed from error

    def _feed(self, event: Mapping[str, Any]) -> Iterator[OutputEvent]:
        match event["type"]:
            case "message_start":
                self._begin(event["message"])
            case "content_block_start":
                yield from self._start(event["index"], storable(dict(event["content_block"])))
            case "content_block_delta":
                yield from self._delta(self._open_block(event["index"]), storable(event["delta"]))
            case "content_block_stop":
                yield from self._stop(self._open_block(event["index"]))
            case "message_delta":
                _require(in_order=self._has_begun)
                self._usage = merge_usage(self._usage, clean_usage(event.get("usage")))
                if (reason := event["delta"].get("stop_reason")) is not None:
                    self.stop_reason = str(reason)
            case _:
                return

    def _begin(self, started: Mapping[str, Any]) -> None:
        usage, name = clean_usage(started.get("usage")), started.get("id")
        # What is no id for the gateway must not look like one.
        message_id = identifier(name) if isinstance(name, str) and name else ""
        if not self._has_begun:
            self._has_begun, self._usage, self.message_id = True, usage, message_id
        elif message_id in {"", self.message_id}:
            # The gateway bills it as one message, too.
            self._usage = highest_usage(self._usage, usage)
        else:
            # A second message is not charged, so it is no part of this one either.
            _require(in_order=self.stop_reason is None)

    def _start(self, index: int, block: dict[str, Any]) -> Iterator[OutputEvent]:
        _require(in_order=self._has_begun and self.stop_reason is None and index not in self._blocks)
        if block["type"] == "tool_use":
            block["id"], block["name"] = self._own_call_id(str(block["id"])), str(block["name"])
        self._blocks[index] = _Block(block)
        yield from self.deltas.block_start(block)
        if block["type"] == "text":
            yield from self.deltas.delta(block, self.message_id)

    def _own_call_id(self, call_id: str) -> str:
        if call_id in self.call_ids or not _CALL_ID.fullmatch(call_id):
            call_id = f"toolu_{new_uuid().hex}"
        self.call_ids.add(call_id)
        return call_id

    def _open_block(self, index: int) -> _Block:
        block = self._blocks[index]
        _require(in_order=not block.is_complete and self.stop_reason is None)
        return block

    def _delta(self, block: _Block, delta: Mapping[str, Any]) -> Iterator[OutputEvent]:
        kind = delta["type"]
        if (name := _TEXTS.get(kind)) is not None:
            block.parts.append(str(delta[name]))
        elif (names := _REPLACED.get(kind)) is not None:
            block.block.update({name: delta[name] for name in names if name in delta})
        elif kind == "citations_delta":
            block.block["citations"] = [*(block.block.get("citations") or []), delta["citation"]]
        if kind in ("text_delta", "thinking_delta", "citations_delta"):
            yield from self.deltas.delta(delta, self.message_id)

    def _stop(self, block: _Block) -> Iterator[OutputEvent]:
        block.is_complete = True
        if block.kind == "server_tool_use":
            yield from self.deltas.web.call(block.block, _arguments(block), None)
        if block.kind != "tool_use":
            return
        call = ModelToolCall(block.block["id"], block.block["name"], _arguments(block))
        self.tool_uses.append(call)
        if call.name != self.deltas.hidden_tool:
            args = call.args if isinstance(call.args, dict) else {}
            tool_id = self.deltas.tool_id_of(call.name)
            is_client = is_client_tool(call.name)
            yield ToolCallStart(
                tool_call_id=call.call_id, tool_name=tool_id, args=args, is_client_tool=is_client
            )


def _require(*, in_order: bool) -> None:
    if not in_order:
        raise MessageMalformed


def _arguments(block: _Block) -> Any:
    text = "".join(block.parts)
    if not text.strip():
        return block.block.get("input") or {}
    try:
        return storable(json.loads(text))
    except (ValueError, RecursionError):
        return text


def _finished(block: _Block) -> dict[str, Any] | None:
    """The block with everything that arrived; None if the API would refuse it."""
    match block.kind:
        case "text":
            return {**block.block, "text": block.text} if block.text.strip() else None
        case "thinking":
            return {
                **block.block,
                "thinking": str(block.block.get("thinking") or "") + "".join(block.parts),
            }
        case kind if kind.endswith("tool_use"):
            # The provider's own tools have arguments as well.
            args = _arguments(block)
            return {**block.block, "input": args if isinstance(args, dict) else {}}
        case _:
            return block.block
