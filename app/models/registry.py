"""ModelRegistry: resolves a role, alias or id to the exact model id that is requested, shown and priced.

Entries of the operator's file (`file.py`) take precedence over the shipped ones.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from app.errors import Invalid
from app.models.context_windows import known_window
from app.platform.serialization.strict_yaml import did_you_mean
from app.requests.run_request import Effort

DEFAULT = "default"
ROLES = (DEFAULT, "triage", "candidate_extraction", "curator", "reconcile", "repair")
"""The shipped roles; each resolves to the default model unless the operator configures another."""

ALIASES = {
    "haiku": "claude-haiku-5-5",
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
}
"""Our aliases, not the CLI's: it maps the same words to other models with every release."""

MAX_OUTPUT_TOKENS = 32_000
"""The default limit on the tokens of one message."""

CLAUDE_ID = re.compile(r"claude-[a-z0-9]+(?:[.-][a-z0-9]+)*")

Thinking: TypeAlias = Literal["disabled", "adaptive"] | int
"""A number is the thinking budget in tokens."""


class UnknownModel(Invalid):
    """There is no model with this name."""

    code = "unknown_model"


class ModelNotPriced(Invalid):
    """There is no price for this model."""

    code = "model_not_priced"


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The request options of a model."""

    thinking: Thinking = "disabled"
    effort: Effort | None = None
    """None means the model's default."""
    max_output_tokens: int = MAX_OUTPUT_TOKENS
    fallback: str | None = None
    """The model to use when this one is overloaded, unavailable or retired."""
    context_window: int | None = None
    """How many tokens a prompt and its answer may have; None if that is not known."""
    task_budget: int | None = None
    """How many tokens the model is told to use for a run; None: it is told nothing."""


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """The options of one model, of a list of models, or of all that match a pattern."""

    match: str | tuple[str, ...] | re.Pattern[str]
    options: ModelOptions = field(default_factory=ModelOptions)

    @property
    def named(self) -> tuple[str, ...]:
        """The ids it names; a pattern names none."""
        match self.match:
            case str() as model:
                return (model,)
            case tuple() as models:
                return models
            case _:
                return ()

    @property
    def precedence(self) -> int:
        """Sort key: an exact id comes before a list, a list before a pattern."""
        return (str, tuple, re.Pattern).index(type(self.match))

    def matches(self, model: str) -> bool:
        if isinstance(self.match, re.Pattern):
            return self.match.fullmatch(model) is not None
        return model in self.named


@dataclass(frozen=True, slots=True)
class OperatorModels:
    """The contents of the operator's models file."""

    aliases: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    entries: tuple[ModelEntry, ...] = ()
    closed: bool = False
    """Whether only models that match an entry exist."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model with its aliases, roles and options."""

    id: str
    aliases: tuple[str, ...]
    roles: tuple[str, ...]
    options: ModelOptions


class ModelRegistry:
    """Resolves the model names of requests and graphs, and knows each model's options."""

    def __init__(
        self,
        default_model: str,
        own: OperatorModels | None = None,
        *,
        is_priced: Callable[[str], bool],
    ) -> None:
        """Raises `UnknownModel` or `ModelNotPriced` naming the setting and the key in its file."""
        own = own or OperatorModels()
        self._is_priced = is_priced
        self._aliases = {**ALIASES, **own.aliases}
        self._roles: Mapping[str, str] = {}
        shipped = [] if own.closed else [ModelEntry(CLAUDE_ID)]
        self._entries = _ordered([*own.entries, *shipped])
        for alias in own.aliases:
            self._usable(alias, field=_key("aliases", alias))
        default = self._usable(default_model, field="RUNTALLY_DEFAULT_MODEL")
        chosen = {role: self._usable(name, field=_key("roles", role)) for role, name in own.roles.items()}
        self._roles = {**dict.fromkeys(ROLES, chosen.get(DEFAULT, default)), **chosen}
        resolved = [self._with_fallback(entry, index) for index, entry in enumerate(own.entries)]
        self._entries = _ordered([*resolved, *shipped])

    @property
    def roles(self) -> tuple[str, ...]:
        """Every role, the shipped ones first."""
        return tuple(self._roles)

    def resolve(self, requested: str | None, of_graph: str | None) -> str:
        """The request's model, else the graph's, else that of the role `default`.

        Raises `UnknownModel` and `ModelNotPriced`.
        """
        if requested is not None:
            return self._usable(self._roles.get(requested, requested), field="model")
        if of_graph is not None:
            return self._usable(self._roles.get(of_graph, of_graph), field="model")
        return self._roles[DEFAULT]

    def names_of(self, model: str) -> tuple[str, ...]:
        """The id of a resolved model, and its aliases."""
        return (model, *_called(model, self._aliases))

    def options(self, model: str) -> ModelOptions:
        entry = self._entry(model)
        options = ModelOptions() if entry is None else entry.options
        if options.context_window is not None:
            return options
        return replace(options, context_window=known_window(model))

    def known(self, also: Iterable[str]) -> list[KnownModel]:
        """Every model named by the registry or by one of these names, ordered by id."""
        called = {name: self._aliases.get(name, name) for name in also if name not in self._roles}
        ids = {*called.values(), *self._named()}
        return [self._described(model) for model in sorted(ids) if self._entry(model) is not None]

    def configured_ids(self) -> frozenset[str]:
        """The model ids in entries of the operator's file, including fallbacks."""
        fallbacks = (entry.options.fallback for entry in self._entries)
        return frozenset(name for name in fallbacks if name is not None).union(
            *(entry.named for entry in self._entries)
        )

    def _named(self) -> Iterator[str]:
        yield from self._aliases.values()
        yield from self._roles.values()
        yield from self.configured_ids()

    def _described(self, model: str) -> KnownModel:
        return KnownModel(
            model,
            aliases=_called(model, self._aliases),
            roles=_called(model, self._roles),
            options=self.options(model),
        )

    def _entry(self, model: str) -> ModelEntry | None:
        if not CLAUDE_ID.fullmatch(model):
            return None
        return next((entry for entry in self._entries if entry.matches(model)), None)

    def _usable(self, name: str, *, field: str) -> str:
        model = self._aliases.get(name, name)
        if self._entry(model) is None:
            known = ", ".join(self._aliases)
            names = {*self._aliases, *self._aliases.values(), *self.configured_ids(), *self._roles}
            raise UnknownModel.field(
                field,
                f"{name!r} is neither {known}, nor a role, nor the id of an available Claude model"
                f"{did_you_mean(name, names)}",
            )
        if not self._is_priced(model):
            # It could be used, but not billed.
            raise ModelNotPriced.field(field, f"there is no price for {name!r}")
        return model

    def _with_fallback(self, entry: ModelEntry, index: int) -> ModelEntry:
        if entry.options.fallback is None:
            return entry
        model = self._usable(entry.options.fallback, field=_key("models", f"{index}.fallback"))
        return replace(entry, options=replace(entry.options, fallback=model))


def _ordered(entries: Iterable[ModelEntry]) -> tuple[ModelEntry, ...]:
    # Sorting keeps the order among entries of one kind.
    return tuple(sorted(entries, key=lambda entry: entry.precedence))


def _called(model: str, names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in names if names[name] == model)


def _key(section: str, name: str) -> str:
    return f"RUNTALLY_MODELS_FILE: {section}.{name}"
