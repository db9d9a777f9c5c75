import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import NoOpTracer
from structlog.testing import capture_logs

from app.events import PermissionRequest, PermissionResolved, ToolCallResult, ToolCallStart, UsageReport
from app.ids import AccountId, ApiKeyId, MessageId, RunId, RunKey, new_uuid
from app.platform.telemetry.attributes import OTHER
from app.platform.telemetry.records import PricedAnswer, RunResult, SpanOptions, TracedRun
from app.platform.telemetry.run_trace import RunTrace
from app.platform.telemetry.sdk.opening import GivenIds, SamplerOf
from app.platform.telemetry.spans import SpanWriter
from app.platform.telemetry.trace_context import CallerTrace, RunTraceContext
from app.usage.records import Attribution, TokenUsage, UsageFact
from tests.unit.platform.telemetry.spans_in_memory import InMemory

RUN = RunKey(AccountId(new_uuid()), RunId("r1"))
ALL = SpanOptions(frozenset({"langfuse", "openinference"}), captures_content=True)
UNSAMPLED = CallerTrace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")
ENDED = RunResult("failed", "error", "internal", 3, 4, "So far.")
USAGE = TokenUsage(1, 2, 3, 4, 5)


def a_trace(
    memory: InMemory, options: SpanOptions | None = None, *, caller: CallerTrace | None = None
) -> RunTrace:
    context = RunTraceContext.of(RUN, caller)
    run = TracedRun(RUN, 0, context, "claude_agents:lead", "m", "chat", datetime.now(UTC))
    return RunTrace(
        run, spans=memory.spans, metrics=memory.metrics, options=options or SpanOptions(), waited=False
    )


def an_answer(message: str = "msg_1", parent: str | None = None, **fields: Any) -> PricedAnswer:
    fact = UsageFact(
        run=RUN,
        attempt=0,
        message_id=MessageId(message),
        attribution=Attribution(ApiKeyId(new_uuid()), "claude_agents:lead", None),
        usage=USAGE,
        executor_type="claude_sdk",
        parent_tool_call_id=parent,
        **{"model": "served", "stop_reason": "end_turn", **fields},
    )
    return PricedAnswer(fact, Decimal("0.0000001230"), {"input": Decimal("0.000000123")})


def starts(call: str, tool: str = "t", parent: str | None = None, **args: Any) -> ToolCallStart:
    return ToolCallStart(tool_call_id=call, tool_name=tool, args=args, parent_tool_call_id=parent)


def ends(call: str, *, is_error: bool = False, result: Any = None) -> ToolCallResult:
    return ToolCallResult(tool_call_id=call, result=result, is_error=is_error)


def test_calls_of_a_subagent_that_is_known_late_are_children_of_it() -> None:
    memory = InMemory()
    trace = a_trace(memory)
    for call, name in (("a", "one"), ("b", "two")):
        trace.observe(starts(call, "Agent", subagent_type=name))
    # Both work at once: only their messages show which call has started which.
    for agent, message, call in (("x", "msg_1", "b"), ("y", "msg_2", "a")):
        trace.start_call(f"of {call}", agent=agent).end(an_answer(message))
        trace.observe(UsageReport(an_answer(message, call).fact))
    trace.start_call("of b again", agent="x").end(an_answer("msg_3"))
    trace.observe(starts("c", "inner", parent="a"))
    assert memory.finished == (), "their parents might never be exported"
    for call in ("c", "a", "b"):
        trace.observe(ends(call))
    trace.end(ENDED)

    assert memory.parents() == {
        "chat of b": "invoke_agent two",
        "chat of a": "invoke_agent one",
        "chat of b again": "invoke_agent two",
        "execute_tool inner": "invoke_agent one",
        "execute_tool Agent": "invoke_agent claude_agents:lead",
        "invoke_agent one": "execute_tool Agent",
        "invoke_agent two": "execute_tool Agent",
        "invoke_agent claude_agents:lead": None,
    }


def test_what_has_no_result_ends_with_the_attempt_and_an_unknown_subagent_is_below_the_run() -> None:
    memory = InMemory()
    trace = a_trace(memory)
    trace.observe(starts("a", "Agent", subagent_type="one"))
    trace.observe(starts("b", "inner", parent="a"))
    trace.start_call("m", agent="never named").end(None)
    trace.close()
    # What comes later, such as from a stubborn tool, has no parent to wait for.
    trace.observe(ends("b"))
    trace.end(ENDED)

    assert memory.parents()["execute_tool inner"] == "invoke_agent one"
    assert memory.parents()["chat m"] == "invoke_agent claude_agents:lead"
    errors = {span.name: (span.attributes or {}).get("error.type") for span in memory.finished}
    assert errors == {
        "execute_tool inner": "interrupted",
        "execute_tool Agent": "interrupted",
        "invoke_agent one": "interrupted",
        "chat m": "incomplete",
        "invoke_agent claude_agents:lead": "internal",
    }
    assert {span.status.is_ok for span in memory.finished} == {False}


def test_an_approval_is_a_child_of_its_call() -> None:
    memory = InMemory()
    trace = a_trace(memory)
    trace.observe(starts("a", "pay"))
    asked = {"request_id": "p1", "tool_call_id": "a", "tool_name": "pay", "args": {}, "expires_at": ""}
    trace.observe(PermissionRequest(**asked))
    trace.observe(PermissionResolved(request_id="p1", decision="deny", reason="decided"))
    trace.observe(ends("a", is_error=True))

    assert memory.parents()["await_approval pay"] == "execute_tool pay"
    attributes = memory.named("await_approval pay").attributes or {}
    assert attributes["runtally.approval.decision"] == "deny"
    assert attributes["runtally.approval.reason"] == "decided"


def test_names_of_a_hostile_model_are_printable_short_and_few_in_metrics() -> None:
    memory = InMemory()
    trace = a_trace(memory)
    for number in range(150):
        trace.observe(starts(f"c{number}\x1b", f"\x1b[31m{number}\n{'x' * 1000}"))
        trace.observe(ends(f"c{number}\x1b"))
        trace.start_call(f"model\x00{number}", agent="").end(None)

    assert all(span.name.isprintable() and len(span.name) < 300 for span in memory.finished)
    tools = {
        (point.attributes or {})["gen_ai.tool.name"]
        for point in memory.points("gen_ai.execute_tool.duration")
    }
    assert len(tools) == 101
    assert OTHER in tools
    assert len(memory.points("gen_ai.client.operation.duration")) == 101


def test_a_trace_that_its_caller_does_not_sample_is_not_exported_and_measured() -> None:
    memory = InMemory()
    trace = a_trace(memory, caller=UNSAMPLED)
    call = trace.start_call("m", agent="")
    headers = dict(call.send_to("127.0.0.1", 80, b""))
    call.end(an_answer())
    trace.observe(starts("a"))
    trace.observe(ends("a"))
    trace.end(ENDED)

    assert memory.finished == ()
    assert headers[b"traceparent"].endswith(b"-00")
    assert [point.count for point in memory.points("gen_ai.invoke_agent.duration")] == [1]


def test_back_ends_get_exact_costs_and_content_of_bounded_size() -> None:
    memory = InMemory()
    trace = a_trace(memory, ALL)
    call = trace.start_call("m", agent="")
    sent = {"messages": [{"role": "user", "content": "x" * 10**5}, {"role": "user", "content": "hi"}]}
    call.send_to("127.0.0.1", 80, json.dumps(sent).encode())
    call.receive(b'{"type":"message","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn"}')
    call.end(an_answer())
    trace.observe(starts("a", city="x" * 10**6))
    trace.observe(ends("a", result={"visible": 1}))
    trace.end(ENDED)

    chat = dict(memory.named("chat m").attributes or {})
    assert chat["openinference.span.kind"] == "LLM"
    assert chat["langfuse.observation.type"] == "generation"
    assert chat["langfuse.observation.cost_details"] == '{"input": 0.000000123, "total": 0.0000001230}'
    assert json.loads(str(chat["langfuse.observation.usage_details"])) == {
        "input": 1,
        "output": 2,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 9,
        "total": 15,
    }
    assert chat["llm.token_count.prompt"] == 13
    (*_, last) = json.loads(str(chat["gen_ai.input.messages"]))
    assert last == {"role": "user", "parts": [{"type": "text", "content": "hi"}]}
    said = [
        {"role": "assistant", "parts": [{"type": "text", "content": "hello"}], "finish_reason": "end_turn"}
    ]
    assert json.loads(str(chat["output.value"])) == said
    tool = dict(memory.named("execute_tool t").attributes or {})
    assert tool["gen_ai.tool.call.result"] == '{"visible": 1}'
    assert len(str(tool["gen_ai.tool.call.arguments"])) < 33_000
    run = dict(memory.named("invoke_agent claude_agents:lead").attributes or {})
    assert run["session.id"] == run["gen_ai.conversation.id"] == "chat"
    assert run["langfuse.trace.tags"] == ("claude_agents:lead",)


@pytest.mark.parametrize("options", [SpanOptions(), SpanOptions(frozenset({"langfuse", "openinference"}))])
def test_content_is_exported_only_on_request(options: SpanOptions) -> None:
    memory = InMemory()
    trace = a_trace(memory, options)
    call = trace.start_call("m", agent="")
    call.send_to("127.0.0.1", 80, b'{"messages": [{"role": "user", "content": "secret"}]}')
    call.receive(b'{"type":"message","content":[{"type":"text","text":"secret"}]}')
    call.end(an_answer())
    trace.observe(starts("a", city="secret"))
    trace.observe(ends("a", result="secret"))
    trace.end(RunResult("succeeded", "stop", None, 1, 1, "secret"))

    assert len(memory.finished) == 3
    assert "secret" not in str([dict(span.attributes or {}) for span in memory.finished])


class Broken(GivenIds):
    """Fails with every span."""

    def use(self, **_ids: int) -> None:
        raise OSError


def test_what_cannot_be_traced_does_not_concern_the_run() -> None:
    memory = InMemory()
    memory.spans = SpanWriter(NoOpTracer(), Broken(), SamplerOf(ALWAYS_ON))
    trace = a_trace(memory)
    with capture_logs() as lines:
        trace.observe(starts("a"))
        trace.observe(ends("a"))
    assert [line["event"] for line in lines] == ["trace.event_failed"]
