import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Invalid
from app.models.registry import (
    ALIASES,
    MAX_OUTPUT_TOKENS,
    ROLES,
    ModelEntry,
    ModelNotPriced,
    ModelOptions,
    ModelRegistry,
    OperatorModels,
    UnknownModel,
)

PRICED = frozenset(
    {
        "claude-sonnet-4-6",
        "claude-haiku-4-5-20251001",
        "claude-opus-5-5",
        "claude-haiku-5-5",
        "claude-sonnet-5-5",
    }
)
SONNET = "claude-sonnet-4-6"


def a_registry(
    default: str = SONNET, *, is_priced: Callable[[str], bool] = PRICED.__contains__, **own: Any
) -> ModelRegistry:
    return ModelRegistry(default, OperatorModels(**own), is_priced=is_priced)


def an_entry(match: str | tuple[str, ...] | re.Pattern[str], number: int = 1, **options: Any) -> ModelEntry:
    """An entry that is told from others by its number."""
    return ModelEntry(match, ModelOptions(max_output_tokens=number, **options))


@pytest.mark.parametrize(
    ("requested", "of_graph", "model"),
    [
        (None, None, "claude-sonnet-4-6"),
        (None, "haiku", "claude-haiku-5-5"),
        ("opus", "haiku", "claude-opus-5-5"),
        ("claude-haiku-4-5-20251001", None, "claude-haiku-4-5-20251001"),
        ("triage", "opus", "claude-sonnet-4-6"),
        (None, "curator", "claude-sonnet-4-6"),
    ],
)
def test_the_request_wins_over_the_graph_and_the_graph_over_the_default(
    requested: str | None, of_graph: str | None, model: str
) -> None:
    assert a_registry().resolve(requested, of_graph) == model


def test_the_default_may_be_an_alias() -> None:
    assert a_registry("haiku").resolve(None, None) == "claude-haiku-5-5"
    assert a_registry("fast", aliases={"fast": "claude-opus-5-5"}).resolve(None, None) == "claude-opus-5-5"


@pytest.mark.parametrize("role", ROLES)
def test_a_role_without_a_model_is_the_default_model(role: str) -> None:
    assert a_registry().resolve(role, None) == SONNET
    assert a_registry(roles={"default": "haiku"}).resolve(role, None) == "claude-haiku-5-5"


def test_an_operators_roles_and_aliases_come_before_the_shipped_ones() -> None:
    registry = a_registry(
        aliases={"sonnet": SONNET, "fast": "claude-haiku-5-5"},
        roles={"triage": "fast", "summarizing": "sonnet", "repair": "claude-opus-5-5"},
    )

    names = ["sonnet", "fast", "triage", "summarizing", "repair", "curator", "opus"]
    assert [registry.resolve(name, None) for name in names] == [
        *(SONNET, "claude-haiku-5-5", "claude-haiku-5-5", SONNET, "claude-opus-5-5", SONNET),
        "claude-opus-5-5",
    ]
    assert registry.roles == (*ROLES, "summarizing")


@pytest.mark.parametrize(
    "name",
    [
        *("", "gpt-5", "Sonnet", "claude-sonnet-4-6[1m]", "claude-sonnet-4-6\n", "--model", "Triage"),
        *("anthropic/claude-sonnet-4-6", "us.anthropic.claude-sonnet-4-6-v1:0"),
    ],
)
def test_an_unknown_model_is_refused(name: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        a_registry(entries=(an_entry(re.compile(".*")),), is_priced=lambda _: True).resolve(name, None)
    assert isinstance(caught.value, Invalid)
    assert caught.value.code == "unknown_model"
    assert [error.field for error in caught.value.errors] == ["model"]
    assert repr(name) in caught.value.detail


@pytest.mark.parametrize("name", ["opus", "claude-unpriced-1"])
def test_a_model_without_a_price_is_refused(name: str) -> None:
    registry = a_registry(is_priced={SONNET}.__contains__)
    with pytest.raises(ModelNotPriced) as caught:
        registry.resolve(name, None)
    assert caught.value.code == "model_not_priced"
    assert [error.field for error in caught.value.errors] == ["model"]


def test_a_wrong_default_names_its_variable() -> None:
    with pytest.raises(UnknownModel, match="RUNTALLY_DEFAULT_MODEL"):
        a_registry("gpt-5")


@pytest.mark.parametrize(
    ("own", "key"),
    [
        ({"aliases": {"fast": "claude-unpriced-1"}}, "aliases.fast"),
        ({"roles": {"triage": "gpt-5"}}, "roles.triage"),
        ({"roles": {"triage": "curator"}}, "roles.triage"),
        ({"roles": {"mine": "claude-unpriced-1"}}, "roles.mine"),
        ({"entries": (an_entry(SONNET, fallback="claude-unpriced-1"),)}, "models.0.fallback"),
        ({"entries": (an_entry(SONNET), an_entry("claude-x-1", fallback="gpt-5"))}, "models.1.fallback"),
    ],
)
def test_models_of_the_file_must_be_usable(own: dict[str, Any], key: str) -> None:
    with pytest.raises(Invalid, match=rf"RUNTALLY_MODELS_FILE: {key}: ") as caught:
        a_registry(**own)

    assert caught.value.code in {"unknown_model", "model_not_priced"}


def test_a_fallback_may_be_an_alias() -> None:
    registry = a_registry(entries=(an_entry(SONNET, fallback="haiku"),))

    assert registry.options(SONNET).fallback == "claude-haiku-5-5"


def test_a_closed_registry_has_no_other_models() -> None:
    registry = a_registry(entries=(an_entry((SONNET, "claude-haiku-5-5")),), closed=True)

    assert registry.resolve("haiku", None) == "claude-haiku-5-5"
    for name in ("opus", "claude-opus-5-5"):
        with pytest.raises(UnknownModel, match=name):
            registry.resolve(name, None)
    assert [model.id for model in registry.known(["opus"])] == ["claude-haiku-5-5", SONNET]
    with pytest.raises(UnknownModel, match="RUNTALLY_DEFAULT_MODEL"):
        a_registry(entries=(an_entry("claude-haiku-5-5"),), closed=True)


MATCHES = st.sampled_from(
    [
        *(SONNET, "claude-opus-5-5"),
        *((SONNET, "claude-haiku-5-5"), ("claude-opus-5-5", SONNET)),
        *(re.compile(r"claude-.*"), re.compile(r"claude-sonnet-.*"), re.compile("sonnet")),
    ]
)


@given(st.lists(MATCHES, max_size=6), st.sampled_from(sorted(PRICED)))
def test_an_exact_id_beats_a_list_and_a_list_a_pattern_and_then_the_first_wins(
    matches: list[str | tuple[str, ...] | re.Pattern[str]], model: str
) -> None:
    def fits(match: str | tuple[str, ...] | re.Pattern[str]) -> bool:
        if isinstance(match, re.Pattern):
            return match.fullmatch(model) is not None
        return model == match or (isinstance(match, tuple) and model in match)

    def matching(kind: type) -> list[int]:
        with_positions = enumerate(matches, start=1)
        return [number for number, match in with_positions if isinstance(match, kind) and fits(match)]

    entries = tuple(an_entry(match, number) for number, match in enumerate(matches, start=1))
    expected = next((found[0] for kind in (str, tuple, re.Pattern) if (found := matching(kind))), None)

    options = a_registry(entries=entries).options(model)

    assert options.max_output_tokens == (expected or MAX_OUTPUT_TOKENS)


def test_a_model_is_listed_with_its_aliases_and_roles() -> None:
    registry = a_registry(
        aliases={"fast": "claude-haiku-5-5"},
        roles={"triage": "fast"},
        entries=(
            an_entry("claude-listed-1"),
            an_entry(re.compile("claude-.*"), fallback="claude-haiku-4-5-20251001"),
        ),
    )

    known = {model.id: model for model in registry.known(["claude-graph-1", "fast", "curator", "gpt-5"])}

    assert list(known) == sorted({*PRICED, "claude-listed-1", "claude-graph-1"})
    assert known["claude-haiku-5-5"].aliases == ("haiku", "fast")
    assert known["claude-haiku-5-5"].roles == ("triage",)
    assert known[SONNET].roles == tuple(role for role in ROLES if role != "triage")
    assert known["claude-graph-1"].options.fallback == "claude-haiku-4-5-20251001"


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("claude-haiku-4-5-20251001", 200_000),
        ("claude-opus-5-5", 1_000_000),
        (SONNET, 1_000_000),
        ("claude-opus-5-50", None),
    ],
)
def test_the_context_window_is_known_of_some_models_and_the_operators_comes_first(
    model: str, window: int | None
) -> None:
    own = [ModelEntry(model, ModelOptions(context_window=9)), ModelEntry(model)]

    windows = [
        registry.options(model).context_window
        for registry in (a_registry(), *(a_registry(entries=(entry,)) for entry in own))
    ]

    assert windows == [window, 9, window]


def test_the_window_of_every_shipped_model_is_known() -> None:
    assert all(a_registry().options(model).context_window for model in ALIASES.values())
