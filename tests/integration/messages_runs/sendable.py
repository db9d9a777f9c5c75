"""What the Messages API refuses of a request's messages, as far as a conversation can get into it."""

from typing import Any


def require_sendable(body: dict[str, Any]) -> None:
    """Fail for messages that the API would answer with 400."""
    messages = body["messages"]
    assert messages, "no message"
    first = messages[0]
    begins_with_summary = first["content"][0]["type"] == "compaction"
    assert first["role"] == "user" or begins_with_summary, "begins with the assistant"
    assert messages[-1]["role"] == "user", "ends with the assistant"
    calls: set[str] = set()
    open_calls: list[str] = []
    for number, (role, content) in enumerate(_turns(messages)):
        assert content, f"{number} is empty"
        for block in content:
            assert block["type"] != "text" or block["text"].strip(), f"{number} has an empty text"
        if role == "assistant":
            open_calls = [block["id"] for block in content if block["type"] == "tool_use"]
            assert not calls.intersection(open_calls), f"{number}: an id twice"
            assert len(set(open_calls)) == len(open_calls), f"{number}: an id twice"
            calls.update(open_calls)
            continue
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        leading = [block["type"] for block in content[: len(results)]]
        assert sorted(results) == sorted(open_calls), f"{number}: calls {open_calls}, results {results}"
        assert leading == ["tool_result"] * len(results), f"{number}: results do not come first"
        open_calls = []
    assert not open_calls, f"calls without results: {open_calls}"
    assert _marks(body) <= 4, "more than four marks of the cache"


def _turns(messages: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The API joins neighbouring messages of one role."""
    turns: list[tuple[str, list[dict[str, Any]]]] = []
    for message in messages:
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(message["content"])
        else:
            turns.append((message["role"], list(message["content"])))
    return turns


def _marks(body: dict[str, Any]) -> int:
    blocks = [block for message in body["messages"] for block in message["content"]]
    return sum("cache_control" in part for part in (*body.get("tools", ()), *body["system"], *blocks))
