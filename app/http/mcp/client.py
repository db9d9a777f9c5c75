"""McpClient: the revision of the protocol that a request is in, and what its client can do; pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from uuid import uuid4

from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
)
from mcp_types import DEFAULT_NEGOTIATED_VERSION, HEADER_MISMATCH, INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS, is_version_at_least
from starlette.datastructures import Headers

from app.errors import Invalid, NotFound

SESSION: Final = "Mcp-Session-Id"
_SESSION: Final = re.compile(r"[0-9a-f]{32}-(?P<forms>forms|plain)")
_MOST_ID_CHARS: Final = 200
_LISTS_SINCE: Final = "2025-11-25"

TASKS: Final = "io.modelcontextprotocol/tasks"
"""The extension of the revision without sessions; the one before has tasks of its own."""

_TASK_METHODS: Final = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
_TASK_METHODS_OF_SESSIONS: Final = frozenset({"tasks/get", "tasks/result", "tasks/cancel", "tasks/list"})


class SessionNotFound(NotFound):
    """This server has not begun this session: initialize another one."""

    code = "mcp_session_not_found"


@dataclass(frozen=True, slots=True)
class McpClient:
    """What a request says of its client.

    No server keeps anything of a session: its id says what the client announced when it began.
    """

    version: str
    has_forms: bool = False
    """Whether it shows its user forms."""
    session: str | None = None
    """Of the revisions with sessions; None in others, and for clients that began none."""
    has_tasks: bool = False
    """Whether it announces the extension for them."""
    info: Any = None
    capabilities: Any = None

    @classmethod
    def of(cls, body: Mapping[str, Any], headers: Headers) -> Self:
        """Read it; raises `MCPError`, `SessionNotFound`."""
        return (
            cls._of_envelope(body, headers) if cls.is_without_sessions(headers) else cls._of_session(headers)
        )

    @classmethod
    def of_notice(cls, headers: Headers) -> Self:
        """That of a message that is no request; raises `SessionNotFound`, `Invalid`."""
        if not cls.is_without_sessions(headers):
            return cls._of_session(headers)
        version = headers[MCP_PROTOCOL_VERSION_HEADER]
        if version not in MODERN_PROTOCOL_VERSIONS:
            raise Invalid.field("MCP-Protocol-Version", "is not a revision that this server knows")
        return cls(version)

    @staticmethod
    def is_without_sessions(headers: Headers) -> bool:
        """Whether a request is in a revision without sessions, or in an unknown one."""
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
        return version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS

    @classmethod
    def _of_session(cls, headers: Headers) -> Self:
        session = headers.get(SESSION)
        found = None if session is None else _SESSION.fullmatch(session)
        if session is not None and found is None:
            raise SessionNotFound
        has_forms = found is not None and found["forms"] == "forms"
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
        return cls(version, has_forms, session)

    @classmethod
    def _of_envelope(cls, body: Mapping[str, Any], headers: Headers) -> Self:
        if (duplicate := find_duplicated_routing_header(headers.items())) is not None:
            raise MCPError(HEADER_MISMATCH, f"The header {duplicate} must be there once.")
        found = classify_inbound_request(body, headers=dict(headers))
        if isinstance(found, InboundLadderRejection):
            raise MCPError(found.code, found.message, found.data)
        capabilities = found.client_capabilities
        return cls(
            found.protocol_version,
            shows_forms(capabilities),
            has_tasks=_has_tasks(capabilities),
            info=found.client_info,
            capabilities=capabilities,
        )

    @property
    def is_modern(self) -> bool:
        """Whether each request stands for itself, without a session."""
        return self.version in MODERN_PROTOCOL_VERSIONS

    @property
    def has_lists(self) -> bool:
        """Whether its forms can have fields with several values, and its streams events without a message."""
        return is_version_at_least(self.version, _LISTS_SINCE)

    @property
    def task_methods(self) -> frozenset[str]:
        """The methods by which its revision reaches tasks."""
        if self.is_modern:
            return _TASK_METHODS
        return _TASK_METHODS_OF_SESSIONS if self.has_lists else frozenset()

    def wants_task(self, params: Mapping[str, Any]) -> bool:
        """Whether a call is answered with a task: in revisions with sessions the client asks for one."""
        return self.has_tasks if self.is_modern else self.has_lists and params.get("task") is not None


def new_session(params: Mapping[str, Any]) -> str:
    """The id of a session of a client that announces this."""
    forms = "forms" if shows_forms(params.get("capabilities")) else "plain"
    return f"{uuid4().hex}-{forms}"


def shows_forms(capabilities: Any) -> bool:
    """Whether a client with these capabilities shows forms; one that does not say which modes shows these."""
    match capabilities:
        case {"elicitation": {"form": dict()}}:
            return True
        case {"elicitation": dict(modes)}:
            return not modes
        case _:
            return False


def _has_tasks(capabilities: Any) -> bool:
    match capabilities:
        case {"extensions": dict(extensions)}:
            return TASKS in extensions
        case _:
            return False


def require_short(value: str | int | None, name: str) -> None:
    """Raise `MCPError` for an id that would not fit into the ids of events."""
    if len(json.dumps(value)) > _MOST_ID_CHARS:
        raise MCPError(INVALID_REQUEST, f"{name}: must have at most {_MOST_ID_CHARS} characters")
