"""Attributes that Langfuse and Phoenix need besides those of the conventions; pure."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

from app.platform.telemetry.attributes import Attributes, Backend, Value, present
from app.platform.telemetry.records import PricedAnswer, TracedRun

Kind = Literal["AGENT", "LLM", "TOOL", "CHAIN"]
_OBSERVATIONS: Mapping[Kind, str] = {
    "AGENT": "agent",
    "LLM": "generation",
    "TOOL": "tool",
    "CHAIN": "span",
}


def kind_attributes(backends: frozenset[Backend], kind: Kind) -> Attributes:
    """What a span is."""
    attributes: Attributes = {}
    if "langfuse" in backends:
        attributes["langfuse.observation.type"] = _OBSERVATIONS[kind]
    if "openinference" in backends:
        attributes["openinference.span.kind"] = kind
    return attributes


def session_attributes(backends: frozenset[Backend], run: TracedRun) -> dict[str, str]:
    """Whose run it is, where it names no end user, and in which conversation."""
    if not backends:
        return {}
    session = {} if run.conversation is None else {"session.id": run.conversation}
    return {"user.id": str(run.run.account_id), **session}


def run_attributes(backends: frozenset[Backend], run: TracedRun, content: Mapping[str, Value]) -> Attributes:
    """Those of the span of a run; `content` has the conventions' attributes of messages."""
    attributes = kind_attributes(backends, "AGENT")
    if "langfuse" in backends:
        attributes |= {"langfuse.trace.name": run.graph_id, "langfuse.trace.tags": (run.graph_id,)}
    return attributes | content_attributes(backends, content)


def call_attributes(
    backends: frozenset[Backend],
    requested_model: str,
    content: Mapping[str, Value],
    answer: PricedAnswer | None,
) -> Attributes:
    """Those of a call of the model: exact counts and costs, so that no back end uses prices of its own."""
    attributes = kind_attributes(backends, "LLM") | content_attributes(backends, content)
    if "openinference" in backends:
        attributes |= {"llm.provider": "anthropic", "llm.model_name": requested_model}
    if answer is None:
        return attributes
    usage = answer.fact.usage
    if "langfuse" in backends:
        attributes |= {
            "langfuse.observation.model.name": answer.fact.model,
            "langfuse.observation.usage_details": _numbers(
                {
                    "input": usage.input_tokens,
                    "output": usage.output_tokens,
                    "cache_read_input_tokens": usage.cache_read_tokens,
                    "cache_creation_input_tokens": usage.cache_write_5m_tokens + usage.cache_write_1h_tokens,
                    "total": usage.total_tokens,
                }
            ),
            "langfuse.observation.cost_details": _numbers(
                {**answer.cost_by_kind, "total": answer.cost_usd},
            ),
        }
    if "openinference" in backends:
        attributes |= {
            "llm.token_count.prompt": usage.prompt_tokens,
            "llm.token_count.completion": usage.output_tokens,
            "llm.token_count.total": usage.total_tokens,
            "llm.token_count.prompt_details.cache_read": usage.cache_read_tokens,
            "llm.cost.total": float(answer.cost_usd),
        }
    return attributes


def content_attributes(backends: frozenset[Backend], content: Mapping[str, Value]) -> Attributes:
    """The captured content under the names of the back ends."""
    given = content.get("gen_ai.input.messages", content.get("gen_ai.tool.call.arguments"))
    made = content.get("gen_ai.output.messages", content.get("gen_ai.tool.call.result"))
    attributes: Attributes = {}
    if "langfuse" in backends:
        attributes |= present({"langfuse.observation.input": given, "langfuse.observation.output": made})
    if "openinference" in backends:
        attributes |= present({"input.value": given, "output.value": made})
    return attributes


def _numbers(values: Mapping[str, int | Decimal]) -> str:
    """A JSON object; decimals keep all their digits."""
    return "{" + ", ".join(f"{json.dumps(name)}: {_digits(value)}" for name, value in values.items()) + "}"


def _digits(value: int | Decimal) -> str:
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
