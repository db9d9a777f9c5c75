"""read_models: reads an operator's model registry, a YAML file.

aliases:
  fast: claude-haiku-5-5
roles:
  triage: fast             # an alias or an id
  summarizing: sonnet      # a new role
models:                    # an id is tried before ids, ids before patterns; the first match wins
  - id: claude-opus-5-5
    effort: high           # low, medium, high, xhigh, max
    fallback: sonnet       # used when this one is overloaded, unavailable or retired
  - ids: [claude-sonnet-4-6, claude-opus-4-5]
    thinking: 4096         # tokens, or adaptive, or disabled
    max_output_tokens: 16000
    context_window: 200000 # tokens; shown to clients
  - pattern: claude-haiku-.*
    max_output_tokens: 4000
closed: true               # only these models; default: every Claude model
"""

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    model_validator,
)

from app.errors import OperatorError
from app.models import registry
from app.platform.serialization.strict_yaml import YamlDocument, YamlInvalid
from app.requests.run_request import LEAST_THINKING, Effort

_MOST_OUTPUT = 128_000
_LARGEST_CONTEXT = 10_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class ModelFileError(OperatorError):
    """The models file is invalid; the text names RUNTALLY_MODELS_FILE and the key."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"RUNTALLY_MODELS_FILE: {problem}")


def _thinking(value: object) -> registry.Thinking:
    if value == "disabled" or value == "adaptive":  # noqa: PLR1714 - mypy narrows this, not a set
        return value
    if type(value) is int and value >= LEAST_THINKING:
        return value
    raise ValueError(f"must be disabled, adaptive or a number of tokens from {LEAST_THINKING}")


def _pattern(value: object) -> re.Pattern[str]:
    if not isinstance(value, str):
        message = "must be a regular expression"
        raise ValueError(message)  # noqa: TRY004 - pydantic reports ValueError by field
    try:
        return re.compile(value)
    except re.error as error:
        raise ValueError("is not a regular expression") from error


def _is_id(name: str) -> str:
    if not registry.CLAUDE_ID.fullmatch(name):
        raise ValueError("must be the id of a Claude model, for example claude-sonnet-5-5")
    return name


_Id = Annotated[str, AfterValidator(_is_id), Field(max_length=200)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: _Id | None = None
    ids: Annotated[tuple[_Id, ...], Field(min_length=1)] | None = None
    pattern: Annotated[re.Pattern[str], PlainValidator(_pattern)] | None = None
    thinking: Annotated[registry.Thinking, PlainValidator(_thinking)] = "disabled"
    effort: Effort | None = None
    max_output_tokens: Annotated[int, Field(ge=1, le=_MOST_OUTPUT, strict=True)] = registry.MAX_OUTPUT_TOKENS
    fallback: str | None = None
    context_window: Annotated[int, Field(ge=1, le=_LARGEST_CONTEXT, strict=True)] | None = None

    @model_validator(mode="after")
    def _require_one_match(self) -> "_Entry":
        if sum(match is not None for match in (self.id, self.ids, self.pattern)) != 1:
            raise ValueError("must have one of id, ids and pattern")
        return self

    @model_validator(mode="after")
    def _leaves_room_for_an_answer(self) -> "_Entry":
        least = LEAST_THINKING if self.thinking == "adaptive" else self.thinking
        if isinstance(least, int) and least >= self.max_output_tokens:
            raise ValueError(f"thinking needs max_output_tokens above {least}")
        return self

    def entry(self) -> registry.ModelEntry:
        match = next(match for match in (self.id, self.ids, self.pattern) if match is not None)
        options = registry.ModelOptions(
            self.thinking, self.effort, self.max_output_tokens, self.fallback, self.context_window
        )
        return registry.ModelEntry(match, options)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    aliases: dict[str, _Id] = {}
    roles: dict[str, str] = {}
    models: list[_Entry] = []
    closed: Annotated[bool, Field(strict=True)] = False


def read_models(path: Path) -> registry.OperatorModels:
    """Read a models file; raises `ModelFileError`."""
    try:
        document = YamlDocument.read(path.read_bytes())
    except OSError as error:
        raise ModelFileError(f"cannot be read: {error.strerror}") from error
    except YamlInvalid as error:
        raise ModelFileError(f"is not valid YAML: {error}") from error
    try:
        parsed = _File.model_validate(document.value)
    except ValidationError as error:
        raise ModelFileError(document.problems(error, _File)[0]) from error
    _check_names("aliases", parsed.aliases, taken={*registry.ROLES, *parsed.roles})
    _check_names("roles", parsed.roles, taken=registry.ALIASES)
    entries = tuple(each.entry() for each in parsed.models)
    return registry.OperatorModels(parsed.aliases, parsed.roles, entries, parsed.closed)


def _check_names(section: str, names: Iterable[str], *, taken: Collection[str]) -> None:
    for name in names:
        if name in taken:
            raise _wrong((section, name), "is the name of both an alias and a role")
        if registry.CLAUDE_ID.fullmatch(name) or not _NAME.fullmatch(name):
            raise _wrong((section, name), "must be a name: letters, digits, . _ - and no model's id")


def _wrong(path: Iterable[str | int], problem: str) -> ModelFileError:
    key = ".".join(str(part) for part in path if part != "[key]")
    return ModelFileError(f"{key}: {problem}" if key else problem)
