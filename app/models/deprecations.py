"""The models that their provider has announced to retire, and when.

Source: `DEPRECATED_MODELS` of the `anthropic` package, up to 2.14.0 of November 2026, which no longer lists
models that were retired before. A test compares the table with the installed package.
"""

from collections.abc import Iterable, Iterator
from datetime import date

from app.graphs.spec import GraphSpec
from app.models.registry import KnownModel, ModelRegistry

ENDS = {
    "claude-1.3": date(2024, 11, 6),
    "claude-1.3-100k": date(2024, 11, 6),
    "claude-instant-1.1": date(2024, 11, 6),
    "claude-instant-1.1-100k": date(2024, 11, 6),
    "claude-instant-1.2": date(2024, 11, 6),
    "claude-3-sonnet-20240229": date(2025, 7, 21),
    "claude-3-opus-20240229": date(2026, 1, 5),
    "claude-2.1": date(2025, 7, 21),
    "claude-2.0": date(2025, 7, 21),
    "claude-3-7-sonnet-latest": date(2026, 2, 19),
    "claude-3-7-sonnet-20250219": date(2026, 2, 19),
    "claude-3-5-haiku-latest": date(2026, 2, 19),
    "claude-3-5-haiku-20241022": date(2026, 2, 19),
    "claude-opus-4-0": date(2026, 6, 15),
    "claude-opus-4-20250514": date(2026, 6, 15),
    "claude-sonnet-4-0": date(2026, 6, 15),
    "claude-sonnet-4-20250514": date(2026, 6, 15),
    "claude-mythos-preview": date(2026, 6, 30),
    "claude-sonnet-4-5": date(2026, 11, 30),
    "claude-sonnet-4-5-20250929": date(2026, 11, 30),
    "claude-opus-4-5": date(2027, 1, 22),
    "claude-opus-4-5-20251101": date(2027, 1, 22),
}
"""The first day on which requests for a model fail."""


def announced_ends(models: ModelRegistry, graphs: Iterable[GraphSpec], *, today: date) -> list[str]:
    """One sentence for each configured model whose retirement is announced."""
    graphs = list(graphs)
    known = models.known(name for graph in graphs for name in graph.models)
    return [_sentence(model, models, graphs, today=today) for model in known if model.id in ENDS]


def _sentence(model: KnownModel, models: ModelRegistry, graphs: list[GraphSpec], *, today: date) -> str:
    end = ENDS[model.id]
    when = f"was retired on {end}" if end <= today else f"will be retired on {end}"
    return f"{model.id} {when}; named by {', '.join(_named_by(model, models, graphs))}"


def _named_by(model: KnownModel, models: ModelRegistry, graphs: list[GraphSpec]) -> Iterator[str]:
    yield from (f"role {role}" for role in model.roles)
    yield from (f"alias {alias}" for alias in model.aliases)
    yield from (f"graph {graph.id}" for graph in graphs if model.id in graph.models)
    if model.id in models.configured_ids():
        yield "an entry of the models file"
