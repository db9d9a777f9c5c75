from pathlib import Path
from typing import Any

from app import __version__
from tests.e2e.stories import OpenWorld, a_request
from tests.e2e.test_a_graph_gives_work_to_subagents import LEAD, delegating, graphs, looks_at_the_clock
from tests.otlp import OtlpReceiver, Span, an_otlp_receiver

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"


async def test_a_run_with_a_subagent_is_one_trace(open_world: OpenWorld, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        **graphs(tmp_path),
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-secret=a%20b",
    }
    model = delegating(background=False, helper=looks_at_the_clock)
    async with an_otlp_receiver() as otlp:
        async with open_world(model, OTEL_EXPORTER_OTLP_ENDPOINT=otlp.url, **settings) as world:
            world.http.headers.update({"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "vendor=1"})
            body = a_request("time?", graphId=LEAD, runId="r1", stateKey="chat")
            response = await world.http.post("/v1/runs/wait", json=body)
            assert response.json()["content"] == "It is late."
            receipts = await world.receipts("r1")
            sent = [request.headers for request in world.simulator.requests]

        # Closing the server has exported everything.
        assert otlp.tree() == [
            "INTERNAL invoke_agent claude_agents:lead",
            "  CLIENT chat claude-sonnet-5-5",
            "  INTERNAL execute_tool Agent",
            "    INTERNAL invoke_agent clock-watcher",
            "      CLIENT chat claude-haiku-4-5",
            "      INTERNAL execute_tool core__get_current_time",
            "      CLIENT chat claude-haiku-4-5",
            "  CLIENT chat claude-sonnet-5-5",
        ]
        spans = {span.attributes.get("gen_ai.response.id", span.name): span for span in otlp.spans}
        assert {(span.trace_id, span.trace_state) for span in otlp.spans} == {(TRACE, "vendor=1")}
        assert spans["invoke_agent claude_agents:lead"].parent_id == CALLER
        # The provider's own spans become children of the calls.
        chats = {span.span_id for span in otlp.spans if span.kind == "CLIENT"}
        assert {header["traceparent"] for header in sent} == {f"00-{TRACE}-{each}-01" for each in chats}
        assert {header["tracestate"] for header in sent} == {"vendor=1"}
        for receipt in receipts:
            of_call = spans[receipt["usageUnitId"]].attributes
            assert of_call["runtally.source_reference"] == receipt["sourceReference"]
            assert of_call["runtally.cost_usd"] == receipt["costUsd"]
            assert of_call["anthropic.request.id"] == receipt["providerRequestId"]
        assert _golden(spans[receipts[0]["usageUnitId"]]) == FIRST_CHAT
        assert _golden(spans["invoke_agent claude_agents:lead"]) == RUN
        assert _golden(spans["execute_tool core__get_current_time"]) == TOOL
        assert _tokens(otlp) == {
            "input": sum(receipt["inputTokens"] for receipt in receipts),
            "output": sum(receipt["outputTokens"] for receipt in receipts),
        }
        assert sum(otlp.counts["gen_ai.client.operation.duration"].values()) == len(receipts) == 4
        assert list(otlp.sums["gen_ai.invoke_agent.inference_calls"].values()) == [4]
        assert list(otlp.sums["gen_ai.invoke_agent.tool_calls"].values()) == [2]
        assert otlp.resources[0].items() >= RESOURCE.items()
        assert {header["x-secret"] for header in otlp.headers} == {"a b"}


def _golden(span: Span) -> dict[str, Any]:
    """The attributes without those that differ from run to run, which must be there."""
    attributes = dict(span.attributes)
    assert attributes.pop("runtally.account")
    if span.kind == "CLIENT":
        assert 0 < attributes.pop("gen_ai.response.time_to_first_chunk") < 20
        assert attributes.pop("server.port")
        for name in ("gen_ai.response.id", "anthropic.request.id", "runtally.source_reference"):
            assert attributes.pop(name)
    if span.name.startswith("execute_tool"):
        assert attributes.pop("gen_ai.tool.call.id").startswith("toolu_")
    return attributes


def _tokens(otlp: OtlpReceiver) -> dict[str, float]:
    sums = otlp.sums["gen_ai.client.token.usage"]
    kinds = {dict(key)["gen_ai.token.type"] for key in sums}
    return {
        kind: sum(s for key, s in sums.items() if dict(key)["gen_ai.token.type"] == kind) for kind in kinds
    }


RESOURCE = {
    "service.name": "runtally",
    "service.version": __version__,
    "deployment.environment.name": "test",
}
_OF_RUN = {"runtally.run_id": "r1", "runtally.attempt": 0, "gen_ai.conversation.id": "chat"}
RUN = {
    **_OF_RUN,
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.provider.name": "anthropic",
    "gen_ai.agent.id": LEAD,
    "gen_ai.agent.name": LEAD,
    "gen_ai.request.model": "claude-sonnet-5-5",
    "gen_ai.usage.input_tokens": 40,
    "gen_ai.usage.output_tokens": 80,
    "gen_ai.response.finish_reasons": ["stop"],
    "runtally.status": "succeeded",
}
TOOL = {
    **_OF_RUN,
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "core__get_current_time",
    "gen_ai.tool.type": "function",
}
FIRST_CHAT = {
    **_OF_RUN,
    "server.address": "127.0.0.1",
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "anthropic",
    "gen_ai.request.model": "claude-sonnet-5-5",
    "gen_ai.response.model": "claude-sonnet-5-5",
    "gen_ai.response.finish_reasons": ["tool_use"],
    "gen_ai.usage.input_tokens": 10,
    "gen_ai.usage.output_tokens": 20,
    "gen_ai.usage.cache_read.input_tokens": 0,
    "gen_ai.usage.cache_creation.input_tokens": 0,
    "gen_ai.usage.cache_write.input_tokens": 0,
    "anthropic.usage.cache_creation.ephemeral_5m_input_tokens": 0,
    "anthropic.usage.cache_creation.ephemeral_1h_input_tokens": 0,
    "runtally.cost_usd": "0.0002200000",
}
