"""ToolCall: the parameters of a call, and their conversion to a `GraphRunRequest`."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self, TypeVar
from uuid import uuid4

from mcp_types import RequestId
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from app.graphs.schemas import CONVERSATION
from app.graphs.spec import GraphSpec
from app.http.field_errors import invalid_fields
from app.http.mcp.client import McpClient
from app.ids import RUN_ID_PATTERN
from app.requests.attribution import Attributed, labels_in
from app.requests.blank import require_visible
from app.requests.messages import Message
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest, ResponseFormat
from app.requests.wire_models import InputModel

PREFIX: Final = "mcp-"
"""How the keys of conversations begin that were started over this wire."""

OURS: Final = "runtally/"
"""How our names in `_meta` begin."""

_KEY: Final = re.compile(rf"{PREFIX}[0-9a-f]{{32}}")
_RUN: Final = re.compile(rf"run:({RUN_ID_PATTERN[1:-1]})")
_ModelT = TypeVar("_ModelT", bound=BaseModel)


def name_of_run(run_id: str) -> str:
    """What a client gives as `conversation` to get the answer of a run that it knows."""
    return f"run:{run_id}"


class _Named(InputModel):
    """The argument that each tool has."""

    conversation: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class _MessageArguments(_Named):
    """The arguments of a graph without an input of its own."""

    message: Annotated[str, AfterValidator(require_visible)]


class CallMeta(Attributed):
    """What `_meta` has of ours."""

    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    """The JSON schema that the answer has to match."""
    idempotency_key: Annotated[str, Field(min_length=1, max_length=255)] | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a graph's tool."""

    graph: GraphSpec
    content: Mapping[str, Any]
    """What of a request its run gets: messages, or the graph's input."""
    conversation: str | None
    meta: CallMeta
    key: str | None
    """Calls with the same one are one run; None: each is another."""

    @classmethod
    def read(
        cls,
        caller: Principal,
        graph: GraphSpec,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any] | None,
        *,
        client: McpClient,
        message_id: RequestId,
    ) -> Self:
        """Validate the parameters; raises `Invalid` naming their fields."""
        given = {
            name.removeprefix(OURS): value for name, value in (meta or {}).items() if name.startswith(OURS)
        }
        ours = parsed(CallMeta, given, f"params._meta.{OURS}")
        key = key_of_request(caller, client, message_id)
        if ours.idempotency_key is not None:
            key = hashed(caller, "key", ours.idempotency_key)
        content, conversation = _read_arguments(graph, arguments)
        return cls(graph, content, conversation, ours, key)

    @property
    def run_id(self) -> str | None:
        """The run that the call continues; its other arguments are not passed on."""
        found = _RUN.fullmatch(self.conversation or "")
        return None if found is None else found[1]

    def request(self, caller: Principal) -> GraphRunRequest:
        """The run that answers it."""
        response_format = None
        if self.meta.schema_ is not None:
            response_format = ResponseFormat.of(type="json_schema", schema_=self.meta.schema_)
        return GraphRunRequest.of(
            graph_id=self.graph.id,
            state_key=self._state_key(caller),
            **self.content,
            response_format=response_format,
            **labels_in(self.meta),
        )

    def _state_key(self, caller: Principal) -> str:
        """The conversation: models choose short names, which are those of one key, person and graph."""
        name = self.conversation
        if name is None:
            return PREFIX + (uuid4().hex if self.key is None else hashed(caller, "one", self.key))
        if _KEY.fullmatch(name):
            return name
        end_user = caller.end_user or self.meta.end_user or ""
        return PREFIX + hashed(caller, "name", self.graph.id, end_user, name)


def posted_field(field: str) -> str:
    """Where a client has posted what a `GraphRunRequest` has in this field."""
    name, _, rest = field.partition(".")
    match name:
        case "messages":
            return "params.arguments.message"
        case "input":
            return f"params.arguments.{rest}".rstrip(".")
        case "stateKey":
            return "params.arguments.conversation"
        case "responseFormat":
            return f"params._meta.{OURS}{rest}"
        case _:
            return f"params._meta.{OURS}{field}"


def _read_arguments(graph: GraphSpec, given: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """What the run gets, and the name of the conversation."""
    if graph.input is None:
        found = parsed(_MessageArguments, given, "params.arguments.")
        return {"messages": [Message.of(role="user", content=found.message)]}, found.conversation
    own = {name: value for name, value in given.items() if name != CONVERSATION}
    named = parsed(_Named, {name: given[name] for name in given.keys() - own.keys()}, "params.arguments.")
    return {"input": own}, named.conversation


def key_of_request(caller: Principal, client: McpClient, message_id: RequestId) -> str | None:
    """What is the same for a request that is sent again in its session; None without one."""
    return None if client.session is None else hashed(caller, "request", client.session, message_id)


def hashed(caller: Principal, *parts: str | int) -> str:
    """A short name of these, different for each key and end user of a token."""
    text = json.dumps([str(caller.api_key_id), caller.end_user, *parts])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def parsed(model: type[_ModelT], value: Any, prefix: str) -> _ModelT:
    """The value as this model; raises `Invalid` with `prefix` before the names of its fields."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise invalid_fields(error, value, lambda field: f"{prefix}{field}") from error
