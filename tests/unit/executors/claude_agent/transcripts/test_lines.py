"""The calls that a transcript ends with, and the lines of their results."""

from typing import Any

from app.conversations.records import TranscriptEntry
from app.executors.claude_agent.transcripts.lines import chained_lines, open_calls, result_lines

RUN = "run_1"


def a_line(
    uuid: str, *blocks: dict[str, Any], parent: str | None = None, of: str | None = "msg_2", **fields: Any
) -> dict[str, Any]:
    message = {"id": of, "role": "assistant", "content": list(blocks)}
    return {"type": "assistant", "uuid": uuid, "parentUuid": parent, "message": message} | fields


def call(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "mcp__runtally__a__b", "input": {"n": 1}}


def result(call_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": [{"type": "text", "text": "x"}]}


def test_calls_without_a_result_are_open_in_the_order_of_the_model() -> None:
    """Results come in any order; what a subagent, or another run, has called is not the main agent's."""
    before, own = (
        TranscriptEntry(a_line("0", call("t0")), "before"),
        [
            a_line("0", call("of an earlier message"), of="msg_1"),
            a_line("1", {"type": "text", "text": "Well."}),
            a_line("2", call("t1"), parent="1"),
            a_line("3", call("t2"), parent="2"),
            a_line("4", call("t3"), parent="3"),
            a_line("5", call("sub"), isSidechain=True),
            a_line("6", result("t2"), parent="3", type="user", of=None),
            {"type": "queue-operation", "uuid": "7"},
        ],
    )
    lines = chained_lines([before, *(TranscriptEntry(line, RUN) for line in own)], RUN)

    assert [each["id"] for each in open_calls(lines)] == ["t1", "t3"]


def test_results_are_chained_to_the_last_line_of_the_run() -> None:
    lines = [a_line("1", call("t1"), call("t2"), sessionId="s", cwd="/work", requestId="r")]

    first, second = result_lines(lines, [result("t1"), result("t2")])

    assert (first["parentUuid"], second["parentUuid"]) == ("1", first["uuid"])
    assert (second["sessionId"], second["cwd"], second["type"]) == ("s", "/work", "user")
    assert "requestId" not in second
    assert second["message"] == {"role": "user", "content": [result("t2")]}
    assert open_calls([*lines, first, second]) == []
