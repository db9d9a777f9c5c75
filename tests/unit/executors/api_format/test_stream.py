from typing import Any

import pytest

from app.executors.api_format.stream import DeltaMapper


def mapper(**fields: Any) -> DeltaMapper:
    defaults = {"show_thinking": False, "tool_id_of": str.lower, "hidden_tool": "Answer"}
    return DeltaMapper(**{**defaults, **fields})


@pytest.mark.parametrize(
    ("block", "labels"),
    [
        ({"type": "thinking"}, ["Thinking"]),
        ({"type": "tool_use", "name": "LOOK"}, ["look"]),
        ({"type": "tool_use", "name": "Answer"}, []),
        ({"type": "text"}, []),
    ],
)
def test_thinking_and_tool_calls_are_announced(block: dict[str, Any], labels: list[str]) -> None:
    assert [getattr(event, "label", None) for event in mapper().block_start(block)] == labels


def test_thinking_is_shown_only_where_the_graph_wants_it() -> None:
    delta = {"type": "thinking_delta", "thinking": "hm"}

    assert list(mapper().delta(delta, "msg_1")) == []
    (shown,) = mapper(show_thinking=True).delta(delta, "msg_1", "call_1")
    assert (shown.type, shown.parent_tool_call_id) == ("thinking_delta", "call_1")


def test_text_is_streamed() -> None:
    (event,) = mapper().delta({"type": "text_delta", "text": "hi"}, "msg_1")
    assert event.model_dump()["delta"] == "hi"
