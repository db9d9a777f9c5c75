"""JSON of run previews."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.executors.port import Preview, RunPlan
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
    skills: Mapping[str, str]
    """The skills that the agent can read, with the SHA-256 of each."""
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
            skills={skill.name: skill.sha256 for skill in plan.skills},
            model_options=plan.options,
            limits=LimitsResponse.built_from(plan.limits, timeout_s=timeout_s),
            timeout_s=timeout_s,
            sdk_options=preview.options,
        )
