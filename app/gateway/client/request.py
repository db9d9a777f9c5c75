"""ClientRequest: a request of a client's own agent: its size, and what it says of session and user; pure."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from app.errors import Invalid
from app.gateway.estimate import CallSize, size_of_request
from app.platform.server.loopback import Scope
from app.requests.attribution import ERASED, MAX_LABEL_CHARS

_SESSION_HEADER: Final = b"x-claude-code-session-id"
_USER_HEADER: Final = b"runtally-end-user"
_PASSED: Final = re.compile(
    rb"accept|content-type|user-agent|x-app|(?:anthropic|x-stainless|x-claude)-[!-~]+"
)
"""The headers that the provider gets: those of the Messages API and of its clients."""

_EARLIER_USER_ID: Final = re.compile(r"(?P<user>.+)_session_(?P<session>[0-9a-f-]{36})")
"""As releases of Claude Code had it in which it was no JSON."""


class NotAMessage(Invalid):
    """The body is not a request of the Messages API."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request of the Messages API that was posted to this server."""

    path: str
    body: bytes
    scope: Scope
    """What the gateway reads of it: the headers that the provider gets, and the query."""
    size: CallSize
    session: str | None
    """The id that the agent gives its session."""
    end_user: str | None
    agents_user: str | None
    """Whose agent it is, as Claude Code says by itself."""

    @classmethod
    def read(cls, path: str, body: bytes, scope: Scope) -> "ClientRequest":
        """The request with this body; `scope` is its HTTP request. Raises `NotAMessage`, `Invalid`."""
        request = _parsed(body)
        if not isinstance(request.get("model"), str) or not request["model"]:
            raise Invalid.field("model", "Field required")
        headers = dict(scope["headers"])
        metadata = request.get("metadata")
        user_id = metadata.get("user_id") if isinstance(metadata, dict) else None
        named = _identified(user_id if isinstance(user_id, str) else "")
        return cls(
            path,
            body,
            {
                "headers": [(name, value) for name, value in scope["headers"] if _PASSED.fullmatch(name)],
                "query_string": scope["query_string"],
            },
            size_of_request(request, body),
            _label(headers.get(_SESSION_HEADER, b"").decode("latin-1")) or named.session,
            _label(headers.get(_USER_HEADER, b"").decode("latin-1")) or named.end_user,
            named.agents_user,
        )

    @property
    def models(self) -> Iterator[str]:
        """Every model that the provider may call for it."""
        yield self.size.model
        yield from self.size.others


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        # As text: of bytes Python guesses the encoding.
        request = json.loads(body.decode(), object_pairs_hook=_members)
    except (ValueError, RecursionError) as error:
        raise NotAMessage from error
    if not isinstance(request, dict):
        raise NotAMessage
    return request


def _members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that is given twice: the provider could read the other value than is checked here."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Invalid.field(twice[:MAX_LABEL_CHARS], "must be given once")
    return members


class _Named(NamedTuple):
    """What `metadata.user_id` says; Claude Code writes its user and its session into it."""

    end_user: str | None = None
    agents_user: str | None = None
    session: str | None = None


def _identified(user_id: str) -> _Named:
    if (earlier := _EARLIER_USER_ID.fullmatch(user_id)) is not None:
        return _Named(agents_user=_label(earlier["user"]), session=earlier["session"])
    try:
        named = json.loads(user_id)
    except (ValueError, RecursionError):
        named = None
    if not isinstance(named, dict):
        return _Named(_label(user_id))
    user = named.get("account_uuid") or named.get("device_id")
    return _Named(agents_user=_label(user), session=_label(named.get("session_id")))


def _label(value: Any) -> str | None:
    """A text that can name an end user or a session; None for any other value."""
    is_text = isinstance(value, str) and value.isprintable() and 0 < len(value) <= MAX_LABEL_CHARS
    return value if is_text and not value.startswith(ERASED) else None
