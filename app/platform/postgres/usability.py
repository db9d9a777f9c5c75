"""Whether a database can be used: version of the server, schema, rights of the role."""

from typing import Any

from sqlalchemy import text
from sqlalchemy.engine import Row

from app.errors import OperatorError
from app.platform.postgres.errors import target_of

_LEAST_VERSION = 140_000
SERVER = text(
    "SELECT current_setting('server_version_num')::int AS version, pg_is_in_recovery() AS is_standby, "
    "current_setting('default_transaction_read_only')::bool AS is_read_only"
)
PROBE = text("SELECT CAST(:number AS int) FROM runs LIMIT 0")
"""Fails as others do: it has a parameter, and needs the tables and the right to read them."""

AS_OF = text(
    "SELECT as_of, extract(epoch FROM clock_timestamp() - as_of)::float AS lag_s FROM (SELECT greatest("
    "pg_last_xact_replay_timestamp(), (SELECT max(seen_at) FROM workers WHERE seen_at <= clock_timestamp())"
    ") AS as_of) AS found"
)
"""A time up to which a replica lacks nothing, null if unknown, and its age.

Between heartbeats a standby knows a later one; only they say it of a replica that is no standby.
"""

MAY_WRITE = text("SELECT has_table_privilege('runs', 'SELECT') AND has_table_privilege('runs', 'INSERT')")

NOT_WRITABLE = "the role may not read and write the tables; GRANT that to it, or use the role that migrates"
OUTDATED = "its schema is older than this version requires; run `runtally migrate`"
UNKNOWN = "a newer version of Runtally has migrated it, so that this one cannot use it; start the newer one"


class DatabaseNotUsable(OperatorError):
    """The operator's database cannot be used; the text names it, the reason and the next step."""

    def __init__(self, url: str, problem: str, *, variable: str = "DATABASE_URL") -> None:
        """`variable` is the setting that the URL is from."""
        self.target = target_of(url)
        super().__init__(f"{variable} ({self.target}): {problem}.")


def server_problem(row: Row[Any]) -> str | None:
    """Why a server cannot be used: it is too old or read-only; `row` is what `SERVER` returns."""
    if row.version < _LEAST_VERSION:
        return (
            f"the server is PostgreSQL {row.version // 10_000}, which is too old; use version "
            f"{_LEAST_VERSION // 10_000} or later"
        )
    if row.is_standby or row.is_read_only:
        return "the database is read-only, such as a standby; connect to the primary server"
    return None
