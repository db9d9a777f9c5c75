"""What our code imports of the packages, found in its source, and what each of it looks like."""

import ast
import dataclasses
import enum
import importlib
import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tests.rehearsal.facts import Fact, Value, names

ROOT = Path(__file__).parents[2]

DISTRIBUTIONS = {
    "claude_agent_sdk": "claude-agent-sdk",
    "anthropic": "anthropic",
    "mcp": "mcp",
    "ag_ui": "ag-ui-protocol",
    "genai_prices": "genai-prices",
}
"""By module: the packages that can be rehearsed."""

ON_THE_WIRE = {
    "anthropic.types": (
        "Usage MessageDeltaUsage StopReason ContentBlock RawMessageStreamEvent RawContentBlockDelta",
        "app/gateway/answer_usage.py, app/usage/provider.py",
    ),
    "anthropic.types.beta": (
        "BetaUsage BetaMessageDeltaUsage BetaStopReason BetaRawMessageStreamEvent BetaIterationsUsage",
        "app/gateway/answer_usage.py, app/usage/provider.py",
    ),
    "anthropic.types.shared": (
        "ErrorObject ClaudeCodeVersionTooOldErrorDetails",
        "app/executors/api_format/failures.py",
    ),
    "anthropic.types.model": ("Model", "app/models/registry.py"),
    "anthropic.resources.messages.messages": ("DEPRECATED_MODELS", "app/models/deprecations.py"),
    "claude_agent_sdk": ("Message ContentBlock", "app/executors/claude_agent/mapper.py"),
    "claude_agent_sdk.types": (
        "HookEvent HookInput PermissionMode AssistantMessageError",
        "app/executors/claude_agent/tools/sdk_hooks.py",
    ),
}
"""What nobody imports and yet arrives: the types of it, and who reads it."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_LONG = 300


def vendor_facts() -> Iterator[Fact]:
    """Everything that `app` and `runtally` use of the packages, and the types of what arrives."""
    used: dict[tuple[str, str], set[str]] = {}
    for path in sorted([*(ROOT / "app").rglob("*.py"), *(ROOT / "runtally").rglob("*.py")]):
        for name in used_names(ast.parse(path.read_text("utf-8"))):
            used.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    for module, (arriving, reader) in ON_THE_WIRE.items():
        for each in arriving.split():
            used.setdefault((module, each), {reader})
    seen: set[int] = set()
    for (module, imported), files in sorted(used.items()):
        yield from _facts(module, imported, _shortened(files), seen)


def used_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(module, name) of each import, and of each attribute of an imported module."""
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if _distribution(module):
                bound |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in node.names}
                yield from ((module, alias.name) for alias in node.names)
            case ast.Import():
                bound |= {
                    each.asname or each.name: each.name for each in node.names if _distribution(each.name)
                }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in bound:
                yield bound[name], attribute


def _distribution(module: str) -> str | None:
    return DISTRIBUTIONS.get(module.partition(".")[0])


def _facts(module: str, name: str, used_by: str, seen: set[int]) -> Iterator[Fact]:
    """The facts of a name, and of the types that a union of that name consists of."""
    topic = _distribution(module) or module
    try:
        owner = importlib.import_module(module)
    except ModuleNotFoundError:
        # An attribute of a class and not of a module; or the module has gone, and so have its names.
        owner = None
    if not isinstance(owner, types.ModuleType):
        return
    found = getattr(owner, name, None)
    if name == "__file__" or isinstance(found, types.ModuleType) or id(found) in seen or found is None:
        return
    seen.add(id(found))
    yield Fact(topic, f"{module}.{name}", _described(found), used_by)
    for member in _members(found):
        if member is not found and isinstance(member, type) and _distribution(member.__module__):
            yield from _facts(member.__module__, member.__name__, used_by, seen)


def _members(found: Any) -> Iterator[Any]:
    """What a union or an annotated type consists of."""
    origin = typing.get_origin(found)
    if origin is typing.Annotated:
        yield from _members(typing.get_args(found)[0])
    elif origin in {typing.Union, types.UnionType}:
        for member in typing.get_args(found):
            yield from _members(member)
    else:
        yield found


def _described(found: Any) -> Value:
    match found:
        case type() if issubclass(found, enum.Enum):
            return {member.name: str(member.value) for member in found}
        case type():
            return _described_class(found)
        case Mapping():
            return {str(name): _text(value) for name, value in found.items()}
        case _ if callable(found) and typing.get_origin(found) is None:
            return _signature(found)
    members = list(_members(found))
    if typing.get_origin(found) is not None and members:
        return names(text for member in members for text in _texts(member))
    return _text(found)


def _texts(member: Any) -> list[str]:
    if typing.get_origin(member) is typing.Literal:
        return [str(value) for value in typing.get_args(member)]
    return [member.__name__ if isinstance(member, type) else _text(member)]


def _described_class(found: type) -> Value:
    if dataclasses.is_dataclass(found):
        return {field.name: _field(field) for field in dataclasses.fields(found)}
    if issubclass(found, BaseModel):
        return {
            name: f"{_text(field.annotation)}{'' if field.is_required() else ' = ' + _text(field.default)}"
            for name, field in found.model_fields.items()
        }
    if hasattr(found, "__total__"):
        annotations = inspect.get_annotations(found)
        return {name: _text(kind) for name, kind in annotations.items()}
    public = inspect.getmembers(found, inspect.isfunction)
    methods = {name: _signature(member) for name, member in public if not name.startswith("_")}
    initial = inspect.getattr_static(found, "__init__", None)
    return {**methods, "()": _signature(initial)} if inspect.isfunction(initial) else methods


def _field(field: dataclasses.Field[Any]) -> str:
    kind = _text(field.type)
    if field.default is not dataclasses.MISSING:
        return f"{kind} = {_text(field.default)}"
    if field.default_factory is not dataclasses.MISSING:
        return f"{kind} = {_text(field.default_factory())}"
    return kind


def _signature(found: Any) -> str:
    try:
        return _cleaned(str(inspect.signature(found)))
    except ValueError:
        return "no signature"


def _text(found: Any) -> str:
    if isinstance(found, type):
        return _cleaned(inspect.formatannotation(found))
    return _cleaned(found if isinstance(found, str) else repr(found))


def _cleaned(text: str) -> str:
    """Without addresses in memory and the names of modules, which move."""
    short = re.sub(r"\b(?:[a-z_][a-z_0-9]*\.)+(?=[A-Z])", "", _ADDRESS.sub("", text))
    return short if len(short) <= _LONG else f"{short[:_LONG]}… ({len(short)} characters)"


def _shortened(files: set[str]) -> str:
    first, *rest = sorted(files)
    return first if not rest else f"{first} and {len(rest)} more"
