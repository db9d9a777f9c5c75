"""Extensions: the operator's code from the entry points of installed packages."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import Any, Final, Self, cast

from app.errors import OperatorError
from app.platform.metrics.runs import RunMetrics
from app.tools.entry_points import offered
from app.tools.extensions.credentials import CallCredentials
from app.tools.extensions.hooks import RunHooks
from runtally.tools.credentials import CredentialProvider
from runtally.tools.hooks import Hooks
from runtally.tools.tool import HookContext

HOOKS: Final = "runtally.hooks"
CREDENTIALS: Final = "runtally.credentials"
"""The groups of entry points."""


class ExtensionInvalid(OperatorError):
    """An entry point of an installed package cannot be used; the text names it and the reason."""

    def __init__(self, point: EntryPoint, fault: str) -> None:
        super().__init__(
            f"The entry point {point.name!r} of the group {point.group} ({point.value}) {fault}."
        )


@dataclass(frozen=True, slots=True)
class Extensions:
    """The operator's hooks, and provider of credentials, if there is one."""

    hooks: RunHooks = field(default_factory=RunHooks)
    provider: CredentialProvider | None = None

    @classmethod
    def load(cls, metrics: RunMetrics | None = None) -> Self:
        """Those of the installed packages; raises `ExtensionInvalid`."""
        points = offered(HOOKS)
        providers = offered(CREDENTIALS)
        if len(providers) > 1:
            raise ExtensionInvalid(
                providers[1], f"is a second one besides {providers[0].name!r}: one is allowed"
            )
        return cls(
            RunHooks([(point.name, _hooks(point)) for point in points], metrics),
            next(map(_provider, providers), None),
        )

    @property
    def names(self) -> Sequence[str]:
        """What there is, for the operator."""
        return [
            *(f"hooks {name!r}" for name in self.hooks.names),
            *(["credentials"] if self.provider else []),
        ]

    def credentials(self, context: HookContext, tool_id: str) -> CallCredentials:
        return CallCredentials(self.provider, context, tool_id)


def _hooks(point: EntryPoint) -> Hooks:
    found = _loaded(point)
    if not (isinstance(found, type) and issubclass(found, Hooks)):
        raise ExtensionInvalid(point, "is not a class derived from runtally.Hooks")
    for name, method in vars(Hooks).items():
        if inspect.iscoroutinefunction(method) and not inspect.iscoroutinefunction(getattr(found, name)):
            raise ExtensionInvalid(point, f"has a method {name} that is not async")
    try:
        return found()
    except (Exception, SystemExit) as error:
        raise ExtensionInvalid(point, f"cannot be created: {type(error).__name__}: {error}") from error


def _provider(point: EntryPoint) -> CredentialProvider:
    found = _loaded(point)
    if not inspect.iscoroutinefunction(found):
        raise ExtensionInvalid(point, "is not an async function")
    return cast("CredentialProvider", found)


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise ExtensionInvalid(point, f"cannot be loaded: {type(error).__name__}: {error}") from error
