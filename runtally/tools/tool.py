"""Tool and the `tool` decorator: the interface for authors of tools."""

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from pydantic import BaseModel, RootModel, SecretStr
from pydantic.errors import PydanticUserError
from pydantic_core import to_json

from runtally.tools.content import ToolContent
from runtally.tools.result import ToolErrorCode, ToolResult

Effect = Literal["read_only", "state_change", "external_side_effect"]

MAX_ID_CHARS = 64
"""Executors add a prefix to the id; the Messages API allows 128 characters in all."""

ARGUMENT_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""The names of arguments that the Messages API takes; one other name makes it refuse the whole request."""

_ID = re.compile(r"[a-z0-9][a-z0-9_]*__[a-z0-9][a-z0-9_]*")

StructuredT_co = TypeVar("StructuredT_co", bound=BaseModel, covariant=True)


class ToolDefinitionError(Exception):
    """The definition of a tool is invalid; the text names the tool and the problem."""

    def __init__(self, tool_id: object, fault: str) -> None:
        super().__init__(f"The tool {tool_id!r} {fault}.")


class ArgumentsRefused(Exception):
    """Invalid arguments: the dotted path of the invalid one, empty for all, and the reason."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"{where or 'arguments'}: {reason}")


class ArgumentSchema(Protocol):
    """A schema that validates arguments in addition to the input model."""

    @property
    def document(self) -> dict[str, Any]:
        """The schema as the model sees it."""
        ...

    async def check(self, args: object) -> None:
        """Raise `ArgumentsRefused` for arguments that do not match."""
        ...


class ToolFailed(Exception):
    """Raised by a tool that failed; the model gets the text unchanged."""

    code: ClassVar[ToolErrorCode] = "failed"
    """What clients get."""


ReportProgress: TypeAlias = Callable[[str], Awaitable[None]]
"""Takes what clients may see of a call's progress; the call may then take its `timeout_s` again."""


async def _no_progress(_label: str) -> None:
    return None


class CallingRun(Protocol):
    """The run that calls a tool."""

    @property
    def account_id(self) -> UUID:
        """Its account; the ids of runs are unique per account."""
        ...

    @property
    def run_id(self) -> str:
        """Its id."""
        ...


GetCredential: TypeAlias = Callable[[str], Awaitable[SecretStr]]
"""Takes the name of a credential, returns that of the run's account; raises `ToolFailed` if there is none."""


async def _no_credential(_name: str) -> SecretStr:
    raise ToolFailed("There are no credentials for tools here.")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """What hooks and tools get to know about a run."""

    run: CallingRun
    attempt: int = 0
    """How often it was begun before, in processes that could not end it."""
    request_id: str | None = None
    graph_id: str = ""
    conversation: str | None = None
    """The `stateKey` of its conversation; None for a run without one."""
    deadline: datetime | None = None
    """When the run is stopped, in UTC."""
    budget_left_usd: Decimal | None = None
    """What the run may still cost in dollars; None without such a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext(HookContext):
    """What a tool gets to know about the run that calls it, and what it may ask for during the call."""

    tool_call_id: str
    report_progress: ReportProgress = field(default=_no_progress, repr=False, compare=False)
    credential: GetCredential = field(default=_no_credential, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ToolOutput(Generic[StructuredT_co]):
    """The output of a tool: `markdown` for the model, fields of `structured` for clients."""

    markdown: str
    structured: StructuredT_co
    content: tuple[ToolContent, ...] = ()
    """What the model gets instead of `markdown`, for an output with images."""


class NoFields(BaseModel):
    """What clients get of a tool that returns a text: nothing."""


ToolFunction: TypeAlias = Callable[
    [Any, ToolContext], Awaitable[ToolOutput[Any] | BaseModel | str | ToolResult]
]
"""`async def f(args: ArgsModel, context: ToolContext) -> ToolOutput[OutModel]`.

It may also return `str`, a text for the model alone, or `OutModel`, of which the model gets what the method
`render()` returns, or its JSON. A tool that is executed elsewhere may return the result of the call as it is.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool; created by the `tool` decorator, which validates it."""

    id: str
    description: str
    effect: Effect
    input_model: type[BaseModel]
    output_model: type[BaseModel]
    redact: tuple[str, ...]
    """The output fields a client may see."""
    timeout_s: float
    """The longest a call may take without progress."""
    max_result_bytes: int
    """The limit for each half of the output, in UTF-8."""
    handler: ToolFunction = field(repr=False)
    schema: ArgumentSchema | None = None
    """For tools whose arguments are described by an external schema."""
    max_timeout_s: float = 0
    """The longest a call may take with progress, if that is longer than `timeout_s`."""
    input_schema: dict[str, Any] = field(init=False, repr=False, compare=False)
    """The JSON schema of the arguments, always an object's; not to be changed."""
    definition: str = field(init=False, repr=False, compare=False)
    """Name, description and schema as the model gets them, in JSON."""

    def __post_init__(self) -> None:
        """Write the definition, once for all runs that use the tool."""
        schema = _schema_of(self.input_model) if self.schema is None else self.schema.document
        object.__setattr__(self, "input_schema", schema)
        object.__setattr__(self, "definition", definition_of(self.id, self.description, schema))

    @property
    def longest_call_s(self) -> float:
        """The longest a call may take, whatever progress it reports."""
        return max(self.timeout_s, self.max_timeout_s)

    async def arguments(self, raw: object) -> BaseModel:
        """Parse and validate arguments; raises `ArgumentsRefused` and pydantic's errors."""
        if self.schema is not None:
            await self.schema.check(raw)
        # As JSON, not as Python objects: then a strict model still parses a date from a string.
        return self.input_model.model_validate_json(to_json(raw))

    @property
    def read_only(self) -> bool:
        """Whether calls may run in parallel and be repeated without harm."""
        return self.effect == "read_only"


def definition_of(name: str, description: str, input_schema: Mapping[str, Any]) -> str:
    """A tool as the model gets it, in JSON."""
    definition = {"name": name, "description": description, "input_schema": input_schema}
    return json.dumps(definition, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@cache
def _schema_of(arguments: type[BaseModel]) -> dict[str, Any]:
    # There are as many as tools, and pydantic needs about 0.3 ms for each.
    return arguments.model_json_schema()


def tool(
    *,
    id: str,  # noqa: A002 - the name authors expect, see the contract
    description: str,
    effect: Effect,
    redact: Sequence[str] | None = None,
    timeout_s: float = 30.0,
    max_result_bytes: int = 50_000,
) -> Callable[[ToolFunction], Tool]:
    """Make a tool of an async function; raises `ToolDefinitionError` if it is invalid.

    `redact` lists the output fields that clients may see; `()` hides all. Only a function that returns `str`
    needs none.
    """
    _check_settings(id, description, effect, timeout_s=timeout_s, max_result_bytes=max_result_bytes)

    def define(handler: ToolFunction) -> Tool:
        input_model, output_model = _models(id, handler)
        return Tool(
            id=id,
            description=description.strip(),
            effect=effect,
            input_model=input_model,
            output_model=output_model,
            redact=_visible_fields(id, redact, output_model),
            timeout_s=timeout_s,
            max_result_bytes=max_result_bytes,
            handler=handler,
        )

    return define


def output_of(tool: Tool, answer: object) -> ToolOutput[BaseModel]:
    """What a tool's function returned; raises `TypeError` if that is not what its annotation says."""
    match answer:
        case str():
            answer = ToolOutput(answer, NoFields())
        case BaseModel():
            answer = ToolOutput(_rendered(answer), answer)
    if not isinstance(answer, ToolOutput) or not isinstance(answer.structured, tool.output_model):
        raise TypeError(f"{tool.id} did not return a {tool.output_model.__name__}, as its annotation says")
    return answer


def _rendered(value: BaseModel) -> str:
    render = getattr(value, "render", None)
    text = render() if callable(render) else None
    return text if isinstance(text, str) and text else value.model_dump_json(by_alias=True)


def _check_settings(
    tool_id: str,
    description: str,
    effect: str,
    *,
    timeout_s: float,
    max_result_bytes: int,
) -> None:
    faults = {
        "needs an id of the form namespace__name in small letters, digits and underscores": (
            not _ID.fullmatch(str(tool_id))
        ),
        f"needs an id of at most {MAX_ID_CHARS} characters": len(str(tool_id)) > MAX_ID_CHARS,
        "needs a description": not str(description).strip(),
        f"has an unknown effect {effect!r}; use one of {', '.join(get_args(Effect))}": (
            effect not in get_args(Effect)
        ),
        "needs a timeout_s above zero": not timeout_s > 0,
        "needs a max_result_bytes above zero": not max_result_bytes > 0,
    }
    for fault, present in faults.items():
        if present:
            raise ToolDefinitionError(tool_id, fault)


def _models(tool_id: str, handler: ToolFunction) -> tuple[type[BaseModel], type[BaseModel]]:
    """The input and output model from a handler's annotations."""
    if not inspect.iscoroutinefunction(handler):
        raise ToolDefinitionError(tool_id, "must be an async function")
    try:
        hints = get_type_hints(handler)
    except (NameError, TypeError) as error:
        fault = f"has annotations that cannot be resolved ({error})"
        raise ToolDefinitionError(tool_id, fault) from error
    parameters = list(inspect.signature(handler).parameters.values())
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    if len(positional) != 2 or len(parameters) != 2 or hints.get(positional[1]) is not ToolContext:  # noqa: PLR2004
        raise ToolDefinitionError(tool_id, "must take exactly (args: ArgsModel, context: ToolContext)")
    return (
        _input_model(tool_id, hints.get(positional[0])),
        _output_model(tool_id, hints.get("return")),
    )


def _input_model(tool_id: str, annotation: object) -> type[BaseModel]:
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        raise ToolDefinitionError(tool_id, "must take its arguments as a pydantic BaseModel")
    try:
        schema = _schema_of(annotation)
    except PydanticUserError as error:
        fault = f"takes {annotation.__name__}, which has no JSON schema"
        raise ToolDefinitionError(tool_id, fault) from error
    if schema.get("type") != "object":
        fault = f"takes {annotation.__name__}, whose JSON schema is not an object's"
        raise ToolDefinitionError(tool_id, fault)
    for name in schema.get("properties", ()):
        if not ARGUMENT_NAME.fullmatch(name):
            fault = f"takes {annotation.__name__} with an argument that no model takes: {name[:64]!r}"
            raise ToolDefinitionError(tool_id, fault)
    return annotation


def _output_model(tool_id: str, annotation: object) -> type[BaseModel]:
    if annotation is str:
        return NoFields
    arguments = get_args(annotation) if get_origin(annotation) is ToolOutput else (annotation,)
    for model in arguments:
        if isinstance(model, type) and issubclass(model, BaseModel):
            if issubclass(model, RootModel):
                raise ToolDefinitionError(tool_id, f"returns {model.__name__}, which has no fields")
            return model
    raise ToolDefinitionError(
        tool_id, "must be annotated to return ToolOutput[SomeBaseModel], SomeBaseModel or str"
    )


def _visible_fields(
    tool_id: str,
    redact: Sequence[str] | None,
    output_model: type[BaseModel],
) -> tuple[str, ...]:
    if redact is None and output_model is NoFields:
        return ()
    if redact is None or isinstance(redact, str):
        fault = "must list in redact, as a tuple, the output fields that a client may see; () hides all"
        raise ToolDefinitionError(tool_id, fault)
    known = {*output_model.model_fields, *output_model.model_computed_fields}
    for name in redact:
        if name not in known:
            fault = f"lists {name!r} in redact, but {output_model.__name__} has no such field"
            raise ToolDefinitionError(tool_id, fault)
    return tuple(redact)
