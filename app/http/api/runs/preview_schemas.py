"""JSON of run previews."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.executors.port import Preview, RunPlan
from app.gateway.web.tools import web_tools_at_first
from app.http.api.catalogs.schemas import ModelOptionsResponse
from app.http.response_model import Money, ResponseModel
from runtally.tools.tool import Effect


class PreviewedTool(ResponseModel):
    """A tool a run may use."""

    id: str
    effect: Effect


class LimitsResponse(ResponseModel):
    """Limits of a run; null is no limit."""

    timeout_s: float
    max_turns: int | None
    max_budget_usd: Money | None
    max_total_tokens: int | None


class PreviewResponse(ResponseModel):
    """A planned run. `sdkOptions` are the agent's SDK options without those specific to this machine."""

    graph_id: str
    model: str
    model_options: ModelOptionsResponse
    tools: tuple[PreviewedTool, ...]
    web_tools: Sequence[Mapping[str, Any]]
    """The provider's tools that the gateway adds to the first request."""
    limits: LimitsResponse
    timeout_s: float
    system_prompt: str
    prompt: Sequence[Mapping[str, Any]]
    sdk_options: Mapping[str, Any]

    @classmethod
    def of(cls, plan: RunPlan, preview: Preview) -> "PreviewResponse":
        """Build from a planned run."""
        timeout_s = plan.timeout.total_seconds()
        return cls.built_from(
            plan,
            preview,
            graph_id=plan.spec.id,
            model_options=plan.options,
            web_tools=web_tools_at_first(plan.spec.web),
            limits=LimitsResponse.built_from(plan.limits, timeout_s=timeout_s),
            timeout_s=timeout_s,
            sdk_options=preview.options,
        )
