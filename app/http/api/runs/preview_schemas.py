"""JSON of run previews."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from app.executors.port import Preview, RunPlan
from app.gateway.web.tools import web_tools_at_first
from app.graphs.rules.spec import Action
from app.http.api.catalogs.schemas import ModelOptionsResponse
from app.http.response_model import Money, ResponseModel
from app.runs.forecasts.service import Forecast
from runtally.tools.tool import Effect


class PreviewedTool(ResponseModel):
    """A tool a run may use."""

    id: str
    effect: Effect


class PreviewedRule(ResponseModel):
    """A rule about tool calls; the first that matches a call decides."""

    tool: str
    when: str | None
    do: Action
    message: str | None
    stop: bool


class LimitsResponse(ResponseModel):
    """Limits of a run; null is no limit."""

    timeout_s: float
    max_turns: int | None
    max_budget_usd: Money | None
    max_total_tokens: int | None


class RunOptionsResponse(ModelOptionsResponse):
    """The model's options, with what graph and request chose."""

    task_budget: int | None


class QuantilesResponse(ResponseModel):
    """Half of the runs, and 95 of 100, needed no more."""

    p50: Money
    p95: Money


class SecondsResponse(ResponseModel):
    """The same in seconds, from the start to the end."""

    p50: float
    p95: float


class ForecastResponse(ResponseModel):
    """What it is expected to cost and to take, from the graph's latest successful runs of the account."""

    cost_usd: QuantilesResponse
    seconds: SecondsResponse
    runs: Annotated[int, Field(description="How many runs it follows from.")]


class PreviewResponse(ResponseModel):
    """A planned run. `sdkOptions` are the agent's SDK options without those specific to this machine."""

    graph_id: str
    model: str
    model_options: RunOptionsResponse
    tools: tuple[PreviewedTool, ...]
    rules: tuple[PreviewedRule, ...]
    web_tools: Sequence[Mapping[str, Any]]
    """The provider's tools that the gateway adds to the first request."""
    skills: Mapping[str, str]
    """The skills that the agent can read, with the SHA-256 of each."""
    limits: LimitsResponse
    timeout_s: float
    system_prompt: str
    prompt: Sequence[Mapping[str, Any]]
    sdk_options: Mapping[str, Any]
    forecast: Annotated[
        ForecastResponse | None,
        Field(description="Null without earlier runs, and for keys without `receipts:read`."),
    ]

    @classmethod
    def of(cls, plan: RunPlan, preview: Preview, forecast: Forecast | None) -> "PreviewResponse":
        timeout_s = plan.timeout.total_seconds()
        return cls.built_from(
            plan,
            preview,
            graph_id=plan.spec.id,
            rules=plan.spec.all_rules,
            skills={skill.name: skill.sha256 for skill in plan.skills},
            model_options=plan.options,
            web_tools=web_tools_at_first(plan.spec.web),
            limits=LimitsResponse.built_from(plan.limits, timeout_s=timeout_s),
            timeout_s=timeout_s,
            sdk_options=preview.options,
            forecast=forecast,
        )
