"""Logins at external MCP servers, as they are encrypted."""

from dataclasses import dataclass, field
from typing import NamedTuple


class LoginKey(NamedTuple):
    """The names of a graph and of one of its servers."""

    graph: str
    server: str


@dataclass(frozen=True, slots=True)
class McpLogin:
    """What an operator's consent has given, and where it is renewed."""

    url: str
    """The server's; a login is not used for another one."""
    token_url: str
    client_id: str
    client_secret: str | None = field(repr=False)
    client_auth: str | None
    """How the client authenticates, in the words of RFC 7591; None: without a secret."""
    resource: str
    refresh_token: str | None = field(repr=False)
    access_token: str = field(repr=False)
    expires_at: float | None
    """When the access token ends, in seconds since 1970; None: not known."""


@dataclass(frozen=True, slots=True)
class StoredLogin:
    """A login, and how often it was changed."""

    login: McpLogin
    version: int
