import re
from datetime import date, datetime
from typing import Any

import pytest
from anthropic._data import DEPRECATED_MODELS

from app.graphs.spec import AgentSpec, GraphSpec
from app.models.deprecations import ENDS, announced_ends
from app.models.registry import ALIASES, ModelEntry, ModelOptions, ModelRegistry, OperatorModels
from app.platform.settings import Settings

ENDING = "claude-sonnet-4-5"
TODAY = date(2026, 11, 22)
HELPER = AgentSpec(description="d", prompt="p", model=ENDING)


def a_registry(default: str = "sonnet", **own: Any) -> ModelRegistry:
    return ModelRegistry(default, OperatorModels(**own), is_priced=lambda _: True)


def a_graph(**fields: Any) -> GraphSpec:
    return GraphSpec(name="planner", description="d", system_prompt="p", **fields)


def test_the_table_is_that_of_the_providers_own_client() -> None:
    announced = {
        model: datetime.strptime(re.sub(r"(?<=\d)(st|nd|rd|th)", "", day), "%B %d, %Y").date()  # noqa: DTZ007
        for model, day in DEPRECATED_MODELS.items()
    }

    # The client forgets what was retired long ago; here it stays, because somebody may still configure it.
    assert {model: end for model, end in ENDS.items() if end >= TODAY or model in announced} == announced


def test_no_shipped_model_is_deprecated() -> None:
    shipped = {Settings.model_fields["default_model"].default, *ALIASES.values()}

    assert not shipped & set(ENDS)
    assert announced_ends(a_registry(), [a_graph()], today=TODAY) == []


@pytest.mark.parametrize(
    ("registry", "graph", "named_by"),
    [
        (a_registry(ENDING, roles={"triage": "opus"}), {}, "role default"),
        (a_registry(roles={"mine": ENDING}), {}, "role mine"),
        (a_registry(aliases={"fast": ENDING}), {}, "alias fast"),
        (a_registry(entries=(ModelEntry(ENDING),)), {}, "an entry of the models file"),
        (
            a_registry(entries=(ModelEntry("x", ModelOptions(fallback=ENDING)),)),
            {},
            "an entry of the models file",
        ),
        (a_registry(), {"model": ENDING}, "graph claude_agents:planner"),
        (a_registry(), {"agents": {"x": HELPER}}, "graph claude_agents:planner"),
    ],
)
def test_everything_that_names_a_deprecated_model_is_listed(
    registry: ModelRegistry, graph: dict[str, Any], named_by: str
) -> None:
    (warning,) = announced_ends(registry, [a_graph(**graph)], today=TODAY)

    assert warning.startswith(f"{ENDING} will be retired on 2026-11-30; named by ")
    assert named_by in warning


def test_a_retired_model_is_reported_as_retired() -> None:
    (warning,) = announced_ends(a_registry(ENDING), [], today=date(2026, 11, 30))

    assert "was retired on 2026-11-30" in warning
