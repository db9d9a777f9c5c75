"""JSON of run previews."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.executors.port import Preview, RunContext
from app.http.api.catalogs.schemas import ModelOptionsResponse
from app.http.response_model import Money, ResponseModel
from app.tools.tool import Effect


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
    limits: LimitsResponse
    timeout_s: float
    system_prompt: str
    prompt: Sequence[Mapping[str, Any]]
    sdk_options: Mapping[str, Any]

    @classmethod
    def of(cls, context: RunContext, preview: Preview) -> "PreviewResponse":
        """Build from a planned run."""
        timeout_s = context.timeout.total_seconds()
        return cls(
            graph_id=context.spec.id,
            model=context.model,
            model_options=ModelOptionsResponse.model_validate(context.options),
            tools=tuple(PreviewedTool.model_validate(tool) for tool in context.tools),
            limits=LimitsResponse(
                timeout_s=timeout_s,
                max_turns=context.limits.max_turns,
                max_budget_usd=context.limits.max_budget_usd,
                max_total_tokens=context.limits.max_total_tokens,
            ),
            timeout_s=timeout_s,
            system_prompt=preview.system_prompt,
            prompt=preview.prompt,
            sdk_options=preview.options,
        )
