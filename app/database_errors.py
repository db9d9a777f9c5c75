"""What errors of the database mean."""

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, StatementError

_UNAVAILABLE_STATES = ("08", "28", "3D", "40", "42501", "53", "55", "57", "58")
"""SQLSTATE classes for a server that is unavailable, in contrast to a wrong statement: connections, logins,
renamed databases, transactions that must be repeated, revoked privileges, resources, locks, operators, input
and output."""

_AWAY_STATES = ("08", "28", "3D", "53300", "57P")
"""Those of them for connections that are lost or refused: also by a server that starts or stops."""

READ_ONLY = "25006"
"""In a transaction that may write: the server is a standby, or its disk is full."""

_BAD_DATA, _CONSTRAINT = "22", "23"
"""The SQLSTATE classes for values that cannot be stored."""


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
