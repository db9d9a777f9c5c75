import pytest

from app.executors.claude_agent.options.long_context import cli_model, with_provider_names


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("claude-sonnet-4-6", "claude-sonnet-4-6[1m]"),
        ("claude-opus-4-6-20260205", "claude-opus-4-6-20260205[1m]"),
        ("claude-opus-4-7", "claude-opus-4-7"),
        ("claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("inherit", "inherit"),
    ],
)
def test_the_cli_uses_the_whole_context_and_its_totals_have_the_providers_names(
    model: str, named: str
) -> None:
    assert cli_model(model) == named
    assert with_provider_names({named: {"costUSD": 1}}) == {model: {"costUSD": 1}}
