import pytest

from app.errors import Invalid
from app.executors.models import ALIASES, ModelNotPriced, ModelRegistry, UnknownModel

PRICED = frozenset(
    {
        "claude-sonnet-4-5",
        "claude-sonnet-4-5-20250929",
        "claude-opus-5-5",
        "claude-haiku-5-5",
        "claude-sonnet-5-5",
    }
)


def a_registry(default: str = "claude-sonnet-4-5") -> ModelRegistry:
    return ModelRegistry(default, is_priced=PRICED.__contains__)


@pytest.mark.parametrize(
    ("requested", "of_graph", "model"),
    [
        (None, None, "claude-sonnet-4-5"),
        (None, "haiku", "claude-haiku-5-5"),
        ("opus", "haiku", "claude-opus-5-5"),
        ("claude-sonnet-4-5-20250929", None, "claude-sonnet-4-5-20250929"),
    ],
)
def test_the_request_wins_over_the_graph_and_the_graph_over_the_default(
    requested: str | None, of_graph: str | None, model: str
) -> None:
    assert a_registry().resolve(requested, of_graph) == model


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_an_alias_becomes_a_full_id(alias: str) -> None:
    assert a_registry().resolve(alias, None) == f"claude-{alias}-5-5"


def test_the_default_may_be_an_alias() -> None:
    assert a_registry("haiku").resolve(None, None) == "claude-haiku-5-5"


@pytest.mark.parametrize(
    "name",
    ["", "gpt-5", "Sonnet", "claude-sonnet-4-5[1m]", "claude-sonnet-4-5\n"],
)
def test_what_is_no_model_is_refused(name: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        a_registry().resolve(name, None)
    assert isinstance(caught.value, Invalid)
    assert caught.value.code == "unknown_model"
    assert [error.field for error in caught.value.errors] == ["model"]
    assert repr(name) in caught.value.detail


def test_what_merely_looks_priced_is_refused() -> None:
    registry = ModelRegistry("claude-sonnet-4-5", is_priced=lambda _: True)
    for name in ("gpt-5", "anthropic/claude-sonnet-4-5", "us.anthropic.claude-sonnet-4-5-v1:0"):
        with pytest.raises(UnknownModel):
            registry.resolve(name, None)


@pytest.mark.parametrize("name", ["opus", "claude-unpriced-1"])
def test_a_model_we_cannot_bill_is_refused(name: str) -> None:
    registry = ModelRegistry("claude-sonnet-4-5", is_priced={"claude-sonnet-4-5"}.__contains__)
    with pytest.raises(ModelNotPriced) as caught:
        registry.resolve(name, None)
    assert caught.value.code == "model_not_priced"
    assert [error.field for error in caught.value.errors] == ["model"]


def test_a_wrong_default_names_its_variable() -> None:
    with pytest.raises(UnknownModel, match="RUNTALLY_DEFAULT_MODEL"):
        a_registry("gpt-5")
