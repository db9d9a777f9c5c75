import re
from pathlib import Path

import pytest

from app.models import file as model_file
from app.models.file import ModelFileError, read_models
from app.models.registry import ModelEntry, ModelOptions, OperatorModels


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "models.yaml"
    path.write_text(text)
    return path


def test_the_file_that_the_module_shows_is_read(tmp_path: Path) -> None:
    _, _, shown = str(model_file.__doc__).partition("\n\n")

    own = read_models(written(tmp_path, shown))

    assert own == OperatorModels(
        aliases={"fast": "claude-haiku-5-5"},
        roles={"triage": "fast", "summarizing": "sonnet"},
        entries=(
            ModelEntry("claude-opus-5-5", ModelOptions(effort="high", fallback="sonnet")),
            ModelEntry(
                ("claude-sonnet-4-6", "claude-opus-4-5"),
                ModelOptions(thinking=4096, max_output_tokens=16_000, context_window=200_000),
            ),
            ModelEntry(re.compile("claude-haiku-.*"), ModelOptions(max_output_tokens=4000)),
        ),
        closed=True,
    )


@pytest.mark.parametrize("text", ["{}", "aliases: {}\nroles: {}\nmodels: []"])
def test_everything_may_be_left_out(tmp_path: Path, text: str) -> None:
    assert read_models(written(tmp_path, text)) == OperatorModels()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("roles: {triage: opus, triage: haiku}", "is not valid YAML"),
        ("model: []", "model: there is no such key; did you mean models? (line 1, column 1)"),
        ("aliases: {fast: gpt-5}", "aliases.fast: "),
        ("aliases: {on: claude-haiku-5-5}", "its name must be a string; put it in quotes"),
        ("aliases: {claude-x-1: claude-haiku-5-5}", "aliases.claude-x-1: must be a name"),
        ("aliases: {'a b': claude-haiku-5-5}", "aliases.a b: must be a name"),
        ("aliases: {triage: claude-haiku-5-5}", "aliases.triage: is the name of both"),
        ("{aliases: {x: claude-haiku-5-5}, roles: {x: opus}}", "aliases.x: is the name of both"),
        ("roles: {sonnet: opus}", "roles.sonnet: is the name of both"),
        ("roles: {'': opus}", "must be a name"),
        ("models: [{effort: low}]", "models.0: must have one of id, ids and pattern"),
        ("models: [{id: claude-a-1, pattern: x}]", "models.0: must have one of id, ids and pattern"),
        ("models: [{id: gpt-5}]", "models.0.id: "),
        ("models: [{ids: []}]", "models.0.ids: "),
        ("models: [{ids: [claude-a-1, gpt-5]}]", "models.0.ids.1: "),
        ("models: [{pattern: '('}]", "models.0.pattern: is not a regular expression"),
        ("models: [{pattern: 5}]", "models.0.pattern: must be a regular expression"),
        ("models: [{id: claude-a-1, thinking: 1023}]", "models.0.thinking: must be disabled, adaptive"),
        ("models: [{id: claude-a-1, thinking: true}]", "models.0.thinking: "),
        ("models: [{id: claude-a-1, thinking: 32000}]", "models.0: thinking needs max_output_tokens above"),
        (
            "models: [{id: claude-a-1, thinking: adaptive, max_output_tokens: 1024}]",
            "models.0: thinking needs max_output_tokens above 1024",
        ),
        ("models: [{id: claude-a-1, max_output_tokens: '500'}]", "models.0.max_output_tokens: "),
        ("models: [{id: claude-a-1, seed: 1}]", "models.0.seed: there is no such key (line 1, column 27)"),
        ("closed: 'yes'", "closed: "),
    ],
)
def test_an_error_names_the_wrong_key(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        read_models(written(tmp_path, text))

    assert str(caught.value).startswith("RUNTALLY_MODELS_FILE: ")
    assert problem in str(caught.value)
