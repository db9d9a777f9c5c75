from typing import Any

import pytest

from app.errors import Invalid
from app.graphs.spec import GraphSpec
from app.models.registry import ModelOptions
from app.models.request_options import chosen_options, taken_effort
from app.requests.run_request import ModelChoices

OPUS, OLD = "claude-opus-5-5", "claude-haiku-4-5"


def chosen(
    model: str = OPUS,
    *,
    of_model: ModelOptions | None = None,
    of_graph: dict[str, Any] | None = None,
    **request: Any,
) -> ModelOptions:
    spec = GraphSpec(name="g", description="d", system_prompt="p", **of_graph or {})
    choices = ModelChoices.of(**request)
    return chosen_options(model, of_model or ModelOptions(), spec.id, graph=spec, request=choices)


@pytest.mark.parametrize(
    ("of_model", "of_graph", "of_request", "effort"),
    [
        (None, None, None, None),
        (None, None, "low", "low"),
        (None, None, "max", "high"),
        ("low", None, None, "low"),
        ("low", None, "high", "low"),
        ("low", "max", None, "max"),
        ("low", "max", "xhigh", "xhigh"),
        (None, "medium", "max", "medium"),
        (None, "medium", "low", "low"),
    ],
)
def test_a_request_lowers_the_effort(
    of_model: Any, of_graph: Any, of_request: Any, effort: str | None
) -> None:
    of_model = ModelOptions(effort=of_model)
    assert chosen(of_model=of_model, of_graph={"effort": of_graph}, effort=of_request).effort == effort


@pytest.mark.parametrize(
    ("model", "taken"),
    [
        ("claude-3-7-sonnet-20250219", [None, None, None]),
        ("claude-opus-4-20250514", [None, None, None]),
        ("claude-opus-4-1", [None, None, None]),
        ("claude-sonnet-4-5-20250929", [None, None, None]),
        (OLD, [None, None, None]),
        ("claude-opus-4-5-20251101", ["high", "high", "high"]),
        ("claude-sonnet-4-6", ["high", "high", "max"]),
        ("claude-opus-4-7", ["high", "xhigh", "max"]),
        ("claude-newer-9", ["high", "xhigh", "max"]),
    ],
)
def test_a_model_gets_the_highest_effort_that_it_takes(model: str, taken: list[str | None]) -> None:
    assert [taken_effort(model, effort) for effort in ("high", "xhigh", "max")] == taken


@pytest.mark.parametrize(
    ("of_model", "of_graph", "of_request", "thinking"),
    [
        ("disabled", None, 0, "disabled"),
        ("adaptive", None, 0, "disabled"),
        (4096, None, 2048, 2048),
        (2048, None, 4096, 2048),
        ("disabled", 4096, 2048, 2048),
        ("disabled", 4096, None, 4096),
        ("disabled", 4096, 0, "disabled"),
    ],
)
def test_a_request_lowers_the_thinking_budget(
    of_model: Any, of_graph: Any, of_request: Any, thinking: Any
) -> None:
    options = chosen(
        of_model=ModelOptions(thinking=of_model),
        of_graph={"thinking_budget_tokens": of_graph},
        thinking_budget_tokens=of_request,
    )
    assert options.thinking == thinking


@pytest.mark.parametrize(
    ("model", "of_graph", "of_request", "budget"),
    [
        (OPUS, None, None, None),
        (OPUS, None, 50_000, 50_000),
        (OPUS, 40_000, 50_000, 40_000),
        (OPUS, 40_000, None, 40_000),
        (OLD, 40_000, None, None),
        ("claude-sonnet-5", 40_000, None, None),
    ],
)
def test_the_lowest_task_budget_counts(
    model: str, of_graph: int | None, of_request: int | None, budget: int | None
) -> None:
    assert chosen(model, of_graph={"task_budget": of_graph}, task_budget=of_request).task_budget == budget


@pytest.mark.parametrize(
    ("model", "thinking", "request_", "problem"),
    [
        (OLD, "disabled", {"effort": "low"}, f"effort: {OLD} takes no effort"),
        (OLD, "disabled", {"task_budget": 20_000}, f"taskBudget: {OLD} takes no task budget"),
        (OPUS, "disabled", {"thinking_budget_tokens": 2048}, "thinkingBudgetTokens: the graph claude_"),
        (OPUS, "adaptive", {"thinking_budget_tokens": 2048}, f"thinkingBudgetTokens: {OPUS} decides itself"),
    ],
)
def test_what_a_model_or_graph_does_not_take_is_refused(
    model: str, thinking: Any, request_: dict[str, Any], problem: str
) -> None:
    with pytest.raises(Invalid) as refused:
        chosen(model, of_model=ModelOptions(thinking=thinking), **request_)
    assert refused.value.detail.startswith(problem)
