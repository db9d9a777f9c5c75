"""The spans of the gateway's requests to the provider, whatever becomes of them."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import httpx
import pytest

from app.billing.prices.price_list import PriceList
from app.executors.call_tracing import PricedTracing
from app.executors.metering import usage_fact
from app.gateway.channel import ChannelLimits
from app.platform.telemetry.service import Telemetry
from app.platform.telemetry.trace_context import RunTraceContext
from app.runs.events.tracing import traced_plan
from app.simulator.script import HttpError, Reply, Text, in_turn
from app.simulator.server import Simulator
from tests.factories import a_plan
from tests.integration.gateway_seam import AGENTS, STREAMED, Seam, gateway_to, the_seam
from tests.unit.platform.telemetry.spans_in_memory import InMemory

OF_AGENT = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", "tracestate": "agent=1"}
WORDS = Reply([Text("one two three")])


async def call(seam: Seam, memory: InMemory) -> None:
    """One request of an agent, in a run that is traced."""
    plan = a_plan()
    plan = replace(plan, trace=RunTraceContext.of(plan.run, None), accepted_at=datetime.now(UTC))
    trace = Telemetry(memory.spans, memory.metrics).open(traced_plan(plan), waited=False)
    assert trace is not None
    to_fact = partial(usage_fact, plan=plan, executor_type="claude_sdk")
    hooks = replace(seam.noted.hooks(), tracing=PricedTracing(trace, PriceList(), to_fact))
    channel = seam.gateway.open_channel("r1", ChannelLimits(seam.channel.limits.deadline), hooks)
    try:
        url, headers = f"{channel.url}/v1/messages", {**AGENTS, **OF_AGENT}
        await seam.agent.post(url, json=STREAMED, headers=headers)
    except httpx.RemoteProtocolError:
        # The response was cut off for the agent, too.
        pass
    finally:
        await seam.gateway.close_channel(channel)
    trace.close()


@pytest.mark.parametrize(
    ("answer", "error", "model"),
    [
        (WORDS, None, "served"),
        (HttpError(429, "rate_limit_error"), "429", None),
        (HttpError(529, "overloaded_error"), "529", None),
        (replace(WORDS, cut_after=4), "RemoteProtocolError", "served"),
    ],
    ids=["answered", "rate limit", "overloaded", "cut off"],
)
async def test_a_request_is_a_span_with_its_error(
    answer: Reply | HttpError, error: str | None, model: str | None
) -> None:
    memory = InMemory()
    async with the_seam(in_turn(answer)) as seam:
        await call(seam, memory)
        (sent,) = seam.simulator.requests

    (span,) = memory.finished
    attributes = dict(span.attributes or {})
    assert attributes.get("error.type") == error
    assert span.status.is_ok is (error is None)
    assert ("gen_ai.response.model" in attributes) is (model is not None)
    assert ("runtally.cost_usd" in attributes) is (model is not None)
    assert ("gen_ai.response.time_to_first_chunk" in attributes) is (model is not None)
    # What the agent sent is in no trace of ours.
    ids = f"{span.context.trace_id:032x}-{span.context.span_id:016x}"
    assert sent.headers["traceparent"] == f"00-{ids}-01"
    assert "tracestate" not in sent.headers


async def test_a_provider_that_cannot_be_reached_is_an_error_of_the_span() -> None:
    memory = InMemory()
    async with Simulator(in_turn()) as gone:
        pass
    async with gateway_to(gone.url) as seam:
        await call(seam, memory)

    (span,) = memory.finished
    assert (span.attributes or {})["error.type"] == "ConnectError"
