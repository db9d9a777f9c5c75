"""Which request options a model takes, and which of them a run uses; pure.

Sources: what CLI 2.1.332 sends for each effort and model, measured, and
https://platform.claude.com/docs/en/build-with-claude/task-budgets, read on 26 November 2026. A model that is
not named here is newer than those, and takes all.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol, get_args

from app.errors import Invalid
from app.models.context_windows import without_release
from app.models.registry import ModelOptions, Thinking
from app.requests.run_request import Effort

_EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
"""The lowest first."""
_DEFAULT: Final[Effort] = "high"
"""The provider's, for models that take efforts."""

_WITHOUT_EFFORT = re.compile(r"claude-(3-.*|(opus|sonnet)-4(-[01])?|(haiku|sonnet)-4-5)")
_SOME_EFFORTS: Final[Mapping[str, tuple[Effort, ...]]] = {
    "claude-opus-4-5": ("low", "medium", "high"),
    "claude-opus-4-6": ("low", "medium", "high", "max"),
    "claude-sonnet-4-6": ("low", "medium", "high", "max"),
}
_WITHOUT_TASK_BUDGET = frozenset({*_SOME_EFFORTS, "claude-sonnet-5"})


class Choices(Protocol):
    """What a graph allows, or a request chooses; None: nothing."""

    @property
    def effort(self) -> Effort | None: ...
    @property
    def thinking_budget_tokens(self) -> int | None: ...
    @property
    def task_budget(self) -> int | None: ...


def taken_effort(model: str, effort: Effort | None) -> Effort | None:
    """The highest effort up to this one that a model takes; None: none is sent."""
    if effort is None:
        return None
    most = _EFFORTS.index(effort)
    return next((each for each in reversed(efforts_of(model)) if _EFFORTS.index(each) <= most), None)


def takes_task_budget(model: str) -> bool:
    """Whether a model can be told how many tokens to use for a run."""
    return bool(efforts_of(model)) and without_release(model) not in _WITHOUT_TASK_BUDGET


def chosen_options(
    model: str, options: ModelOptions, graph_id: str, *, graph: Choices, request: Choices
) -> ModelOptions:
    """The registry's options of a model with what graph and request choose; a request can only lower them.

    Raises `Invalid` naming the field.
    """
    return replace(
        options,
        thinking=_thinking(model, options, graph_id, graph=graph, request=request),
        effort=_effort(model, graph.effort or options.effort, request.effort),
        task_budget=_task_budget(model, graph.task_budget, request.task_budget),
    )


def _thinking(
    model: str, options: ModelOptions, graph_id: str, *, graph: Choices, request: Choices
) -> Thinking:
    allowed, field = options.thinking, "thinkingBudgetTokens"
    if (of_graph := graph.thinking_budget_tokens) is not None:
        if of_graph >= options.max_output_tokens:
            problem = f"the thinking budget of the graph {graph_id} exceeds the message length of {model}"
            raise Invalid.field("model", problem)
        allowed = of_graph
    wanted = request.thinking_budget_tokens
    if wanted is None:
        return allowed
    if wanted == 0:
        return "disabled"
    if allowed == "disabled":
        raise Invalid.field(field, f"the graph {graph_id} does not think with {model}: only 0 is possible")
    if allowed == "adaptive":
        raise Invalid.field(field, f"{model} decides itself how much it thinks: choose an effort, or 0")
    return min(allowed, wanted)


def _effort(model: str, allowed: Effort | None, wanted: Effort | None) -> Effort | None:
    if wanted is None:
        return taken_effort(model, allowed)
    if not efforts_of(model):
        raise Invalid.field("effort", f"{model} takes no effort")
    return taken_effort(model, min(wanted, allowed or _DEFAULT, key=_EFFORTS.index))


def _task_budget(model: str, allowed: int | None, wanted: int | None) -> int | None:
    if takes_task_budget(model):
        return min(filter(None, (allowed, wanted)), default=None)
    if wanted is not None:
        raise Invalid.field("taskBudget", f"{model} takes no task budget")
    return None


def efforts_of(model: str) -> tuple[Effort, ...]:
    """Those that a model takes, the lowest first."""
    name = without_release(model)
    return () if _WITHOUT_EFFORT.fullmatch(name) else _SOME_EFFORTS.get(name, _EFFORTS)
