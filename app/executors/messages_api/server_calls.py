"""Calls of the provider's own tools in a conversation: the provider takes none without its result; pure."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any


def without_open_calls(messages: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """The messages without calls that got no result, and without results that have no call.

    What the conversation ends with is left as it is: the provider goes on with the calls of a turn that it
    has paused.
    """
    turns = [list(turn) for _, turn in groupby(messages, key=lambda message: message["role"])]
    kept = [each for turn in turns[:-1] for each in _closed(turn)]
    if len(kept) == sum(map(len, turns[:-1])) and all(map(_is_same, kept, messages)):
        return messages
    return [*kept, *turns[-1]]


def _closed(turn: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The consecutive messages of one role, which the provider reads as one."""
    blocks = [block for message in turn for block in message["content"]]
    calls = {block.get("id") for block in blocks if block["type"] == "server_tool_use"}
    results = {block.get("tool_use_id") for block in blocks if _is_result(block)}
    if calls == results:
        return list(turn)
    whole = calls & results
    contents = ([block for block in each["content"] if _is_kept(block, whole)] for each in turn)
    return [{**each, "content": content} for each, content in zip(turn, contents, strict=True) if content]


def _is_kept(block: Mapping[str, Any], whole: set[Any]) -> bool:
    if block["type"] == "server_tool_use":
        return block.get("id") in whole
    return not _is_result(block) or block.get("tool_use_id") in whole


def _is_result(block: Mapping[str, Any]) -> bool:
    kind = block["type"]
    return kind != "tool_result" and str(kind).endswith("_tool_result")


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one is other
