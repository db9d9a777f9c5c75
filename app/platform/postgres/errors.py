"""What errors of the database mean."""

import re
import socket
import ssl

import asyncpg
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError, StatementError

from app.platform.logs.secrets import without_secrets

_UNAVAILABLE_STATES = ("08", "28", "3D", "40", "42501", "53", "55", "57", "58")
"""SQLSTATE classes for a server that is unavailable, in contrast to a wrong statement: connections, logins,
renamed databases, transactions that must be repeated, revoked privileges, resources, locks, operators, input
and output."""

_AWAY_STATES = ("08", "28", "3D", "53300", "57P")
"""Those of them for connections that are lost or refused: also by a server that starts or stops."""

READ_ONLY = "25006"
"""In a transaction that may write: the server is a standby, or its disk is full."""

_REFUSED_STATES = (READ_ONLY, "42501", "53", "58")
"""Those that stay until an operator acts."""

_POOLER_REFUSES = "08P01"

_BAD_DATA, _CONSTRAINT = "22", "23"
"""The SQLSTATE classes for values that cannot be stored."""


DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


def is_temporary(error: StatementError) -> bool:
    """Whether the same statement may succeed later."""
    if _is_unencodable(error):
        return False
    if isinstance(error, OperationalError | InterfaceError):
        return True
    invalidated = isinstance(error, DBAPIError) and error.connection_invalidated
    return invalidated or sqlstate_of(error).startswith(_UNAVAILABLE_STATES)


def is_away(error: StatementError) -> bool:
    """Whether there is no connection, in contrast to a server that refuses a statement."""
    return sqlstate_of(error).startswith(_AWAY_STATES) or not sqlstate_of(error)


def is_refused(error: StatementError) -> bool:
    """Whether the server refuses a statement that has to work."""
    return sqlstate_of(error).startswith(_REFUSED_STATES) and not is_away(error)


def is_by_values(error: StatementError) -> bool:
    """Whether the values of the statement are the cause."""
    return _is_unencodable(error) or sqlstate_of(error).startswith((_BAD_DATA, _CONSTRAINT))


def _is_unencodable(error: StatementError) -> bool:
    """A value that asyncpg cannot encode; it reports that as an error of its interface."""
    return isinstance(error.orig and error.orig.__cause__, ValueError)


def redacted_text(error: StatementError) -> str:
    """The error without any data of accounts."""
    state = sqlstate_of(error)
    cause = error.orig and (error.orig.__cause__ or error.orig)
    what = f"{type(cause).__name__} {state}".strip()
    # Errors of this class quote the value; others do so only after the first line.
    quotes = not state or state.startswith(_BAD_DATA)
    return what if quotes else f"{what}: {str(cause).partition(chr(10))[0]}"


def sqlstate_of(error: StatementError) -> str:
    """Its SQLSTATE; empty for an error of the connection."""
    return getattr(error.orig, "sqlstate", None) or ""


def target_of(url: str) -> str:
    """The host, port and database that a URL names, for an operator; never the password."""
    try:
        parsed = make_url(url)
        host, port = parsed.host or parsed.query.get("host") or "localhost", parsed.port or 5432
    except (ArgumentError, ValueError):
        return "an invalid URL"
    host = f"[{host}]" if ":" in str(host) else host
    return f"{host}:{port}/{parsed.database or parsed.username or ''}"


def connecting_problem(error: BaseException, url: str) -> str:
    """Why no connection could be made, and what to do: one sentence, without the password."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return (
            "it is no valid URL; write postgresql://user:password@host:port/database, and special characters "
            "of the password as %XX"
        )
    cause = _cause_of(error)
    text = _one_line(cause, parsed.password)
    state = getattr(cause, "sqlstate", None)
    # The others of class 08 are the driver's own: the connection was closed.
    if state and (state == _POOLER_REFUSES or not state.startswith("08")):
        known = (sentence for codes, sentence in _REFUSALS.items() if state.startswith(codes))
        sentence = next(known, "the server refuses the connection ({text}); correct that on the server")
    else:
        sentence = _network_problem(cause, text)
    return sentence.format(role=parsed.username, database=parsed.database, host=parsed.host, text=text)


def _network_problem(cause: BaseException, text: str) -> str:
    found = "what answers there is no PostgreSQL ({text}); correct host and port"
    match cause:
        case socket.gaierror():
            found = "the host name {host} cannot be resolved; correct it, or the name service of this machine"
        case _ if isinstance(cause, ssl.SSLError) or re.search("SSL|certificate", text):
            found = "TLS with the server failed ({text}); correct `sslmode` and the certificates"
        case TimeoutError():
            found = "the server does not answer in time; check host, port and firewall"
        case _ if isinstance(cause, ConnectionRefusedError) or "Connect call failed" in text:
            found = "nothing listens at this address; start PostgreSQL there, or correct host and port"
        case OSError() if cause.errno is not None:
            found = "the server cannot be reached ({text}); check host, port and network"
        case TypeError() | ValueError():
            found = "the URL has an option that cannot be used ({text}); correct or remove it"
    return found


_REFUSALS = {
    (
        "28P01",
    ): "the password of the role {role} is wrong, or there is no such role; correct user and password",
    ("28",): "the server refuses the role {role} ({text}); create it, or allow it in pg_hba.conf",
    (
        "3D",
    ): "there is no database {database} on this server; create it (CREATE DATABASE), or correct the name",
    ("42501",): "the role {role} may not connect to the database {database}; GRANT CONNECT to it",
    (
        "53300",
    ): "the server has no free connection ({text}); raise its max_connections, or stop other clients",
    (_POOLER_REFUSES,): "the server or a pooler before it refuses the connection ({text}); correct it there",
    ("57P03",): "the server is starting or stopping ({text}); try again in a moment",
}


def _cause_of(error: BaseException) -> BaseException:
    """The error of the driver or of the operating system within SQLAlchemy's."""
    found: BaseException = error
    if isinstance(error, DBAPIError) and error.orig is not None:
        found = error.orig.__cause__ or error.orig
    return found


def _one_line(error: BaseException, password: object) -> str:
    text = str(error).partition("\n")[0][:200] or type(error).__name__
    return without_secrets(text, [str(password)] if password else [])
