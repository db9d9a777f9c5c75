"""What a graph configures of external MCP servers."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from app.events import FROM_AGENT
from app.platform.serialization.strict_yaml import StrictModel
from runtally.tools.tool import Effect

MAX_ID_CHARS = 100
"""Executors add a prefix to the id; the Messages API allows 128 characters in all."""

SECRET = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""The name of a secret in a header or environment."""
NOTES_BYTES = 1_000
"""For the note about what is left out of a result, in addition to the limit for its texts."""
_ID_PART = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
_MAX_NAME_CHARS = 32
_TYPES = dict.fromkeys(("streamable-http", "streamable_http", "streamableHttp"), "http")
"""What other programs call the same."""


@dataclass(frozen=True, slots=True)
class ContentLimits:
    """The limits of a result: of its texts in UTF-8, and of its images, decoded, in all."""

    text_bytes: int
    image_bytes: int


def server_name(text: str) -> str:
    """The name of a server that is most like this one."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:_MAX_NAME_CHARS].strip("_")
    return name if name not in {"", FROM_AGENT} else "server"


def _is_server_name(name: str) -> str:
    if not _ID_PART.fullmatch(name) or len(name) > _MAX_NAME_CHARS:
        raise ValueError(
            f"the name of a server has up to {_MAX_NAME_CHARS} lower case letters, digits and single _: "
            f"write {server_name(name)}"
        )
    if name == FROM_AGENT:
        raise ValueError(
            f"must not be {FROM_AGENT}: questions of this server would look like the agent's own"
        )
    return name


ServerName = Annotated[str, AfterValidator(_is_server_name)]


def _has_effects(tools: object) -> object:
    if not isinstance(tools, dict) or not tools:
        *others, last = get_args(Effect)
        raise ValueError(
            f"tools must name each tool that may be used with its effect, {', '.join(others)} or {last}, "
            "for example {search: read_only}; `runtally mcp import` asks the server for them"
        )
    return tools


class _Spec(StrictModel):
    tools: Annotated[dict[str, Effect], BeforeValidator(_has_effects)] = Field(
        default_factory=dict, validate_default=True
    )
    """The tools that may be used, with the effect of each; no other tool of the server is ever used."""
    optional: Annotated[bool, Field(strict=True)] = False
    """Whether runs continue without it."""
    show_results: Annotated[bool, Field(strict=True)] = False
    """Whether clients see the results of its tools."""
    show_progress: Annotated[bool, Field(strict=True)] = True
    """Whether clients see its texts about the progress of a call."""
    instructions: Annotated[bool, Field(strict=True)] = True
    """Whether the model gets the server's instructions."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 30
    """How long a call may take without progress."""
    max_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 600
    """How long a call may take whose server reports progress."""
    max_result_bytes: Annotated[int, Field(ge=1, le=1_000_000)] = 50_000
    max_image_bytes: Annotated[int, Field(ge=0, le=20_000_000)] = 1_000_000
    """Of all images of a result, decoded."""

    @property
    def limits(self) -> ContentLimits:
        """The limits of a result."""
        return ContentLimits(self.max_result_bytes, self.max_image_bytes)

    @property
    def tool_result_bytes(self) -> int:
        """The limit of a tool, whose result may contain a note about what is missing."""
        return self.max_result_bytes + NOTES_BYTES

    @property
    def longest_call_s(self) -> float:
        """The longest a call may take."""
        return max(self.timeout_s, self.max_timeout_s)


def _is_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    return url


def _is_reference(text: str) -> str:
    if not SECRET.fullmatch(text):
        raise ValueError("must be ${NAME}, and RUNTALLY_MCP_SECRETS have the secret NAME")
    return text


_Url = Annotated[str, AfterValidator(_is_url), Field(max_length=2000)]


class OAuthClient(StrictModel):
    """How the server gets its access token."""

    grant: Literal["client_credentials", "authorization_code"] = "client_credentials"
    """The server's own credentials, or those of an operator who has logged in."""
    client_id: Annotated[str | None, Field(min_length=1, max_length=500)] = None
    """Without it, a login registers a client."""
    client_secret: Annotated[str, AfterValidator(_is_reference)] | None = None
    """The reference to a secret."""
    client_auth: Literal["basic", "post"] = "basic"
    """How the client authenticates at the token endpoint."""
    issuer: _Url | None = None
    """The authorization server, whose metadata names its token endpoint; a login at another one fails."""
    token_url: _Url | None = None
    """Without it and an issuer, the authorization server is the one that the MCP server names."""
    scopes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _has_credentials(self) -> Self:
        if self.grant == "client_credentials" and (self.client_id is None or self.client_secret is None):
            raise ValueError("client_credentials need client_id and client_secret")
        if self.grant == "authorization_code" and self.token_url is not None:
            raise ValueError("a login finds its endpoints itself; leave token_url out")
        return self


class _RemoteServer(_Spec):
    url: Annotated[str, AfterValidator(_is_url)]
    headers: dict[str, str] = Field(default_factory=dict)
    oauth: OAuthClient | None = None

    @field_validator("oauth")
    @classmethod
    def _only_one_authorization(cls, oauth: OAuthClient | None, info: ValidationInfo) -> OAuthClient | None:
        if oauth is not None and "authorization" in map(str.lower, info.data.get("headers", {})):
            raise ValueError("headers has an Authorization already")
        return oauth


class HttpServer(_RemoteServer):
    """A server reached by HTTP."""

    type: Literal["http"]


class SseServer(_RemoteServer):
    """A server reached by HTTP with the older transport, whose messages all arrive in one stream."""

    type: Literal["sse"]


def _as_list(command: object) -> object:
    return [command] if isinstance(command, str) else command


class StdioServer(_Spec):
    """A server that is a program, started for each run."""

    type: Literal["stdio"]
    command: Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1)]
    """The program, alone or with its first arguments."""
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)

    @property
    def argv(self) -> tuple[str, ...]:
        return (*self.command, *self.args)


AnyServer: TypeAlias = HttpServer | SseServer | StdioServer


def _with_type(server: object) -> object:
    """The type that a server has, if it names none or calls it otherwise."""
    if not isinstance(server, dict):
        return server
    kind = server.get("type", "stdio" if "command" in server else "http" if "url" in server else None)
    if kind is None:
        raise ValueError("must have a url, or a command")
    return {**server, "type": _TYPES.get(kind, kind) if isinstance(kind, str) else kind}


McpServer: TypeAlias = Annotated[
    Annotated[AnyServer, Field(discriminator="type")], BeforeValidator(_with_type)
]
"""A server as a graph has it: its type may be left out."""


def remote_id(server: str, name: str) -> str:
    """Our id for a server's tool, in the format of all tool ids."""
    return f"{server}__{re.sub(r'[^a-z0-9]+', '_', name.lower()).strip('_')}"


def remote_ids(servers: Mapping[str, AnyServer]) -> Iterator[str]:
    """The ids of all tools that may be used of these servers."""
    for server, spec in servers.items():
        yield from (remote_id(server, name) for name in spec.tools)


def remote_effects(servers: Mapping[str, AnyServer]) -> dict[str, Effect]:
    """The effects of all tools that may be used of these servers, by their ids."""
    return {
        remote_id(server, name): effect
        for server, spec in servers.items()
        for name, effect in spec.tools.items()
    }


def check_names(servers: Mapping[str, AnyServer]) -> None:
    """Raise `ValueError` if two tools would have the same id, or a tool no valid one."""
    ids = list(remote_ids(servers))
    for tool_id in ids:
        server, _, name = tool_id.partition("__")
        if not _ID_PART.fullmatch(server) or not _ID_PART.fullmatch(name):
            raise ValueError(f"{tool_id!r} is no id of a tool: use lower case letters, digits and single _")
        if len(tool_id) > MAX_ID_CHARS:
            message = f"{tool_id!r} is longer than {MAX_ID_CHARS} characters; no model takes such a name"
            raise ValueError(message)
    if len(set(ids)) < len(ids):
        raise ValueError("two tools would have the same id")


def configured_values(spec: AnyServer) -> dict[str, str]:
    return spec.env if isinstance(spec, StdioServer) else spec.headers


def secret_names(servers: Mapping[str, AnyServer]) -> set[str]:
    """The names of the secrets used in headers, environments and by OAuth."""
    values = [value for spec in servers.values() for value in configured_values(spec).values()]
    clients = [spec.oauth for spec in servers.values() if not isinstance(spec, StdioServer) and spec.oauth]
    values += [client.client_secret for client in clients if client.client_secret is not None]
    return {name for value in values for name in SECRET.findall(value)}
