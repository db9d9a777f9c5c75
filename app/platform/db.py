"""Database: transactions and snapshots; the only place that commits."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, NewType, Self, TypeAlias
from uuid import UUID

import anyio
from sqlalchemy import ColumnElement, DateTime, MetaData, Select, Text, cast, func, text, tuple_
from sqlalchemy.dialects.postgresql import JSON
from sqlalchemy.exc import SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import NullPool

from app.errors import Unavailable
from app.ids import RunKey
from app.platform.concurrency.pool_use import PoolUse
from app.platform.logs.dependency import QUIET_S, DependencyLog
from app.platform.pagination import PageRequest
from app.platform.postgres import errors, usability
from app.platform.postgres.connecting import DIRECT, Connector
from app.platform.postgres.errors import is_away
from app.platform.postgres.notifications import Notifications
from app.platform.postgres.passwords import PasswordNotAvailable, PasswordSource
from app.platform.postgres.prepared import SelfCommitting
from app.platform.schema.compatibility import SchemaOutdated, SchemaUnknown
from app.platform.schema.repository import upgrade, usable_revision
from app.platform.serialization.stored_json import dump_json, load_json
from app.platform.setting_groups.database import POOL_SIZE

Transaction = NewType("Transaction", AsyncConnection)
"""A writable transaction; leaving `Database.transaction()` commits it."""

Snapshot = NewType("Snapshot", AsyncConnection)
"""A read-only view, enforced by the type; one of several statements by the database, too."""

Reader: TypeAlias = Transaction | Snapshot

_STATEMENT_S = 30
_FAILING_S = 60.0
"""For so long after a statement that failed, others may fail."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    },
)

UtcDateTime = DateTime(timezone=True)

Json = JSON
"""`json`, not `jsonb`: it preserves the order of names, so that replays are byte-identical."""

UNREADABLE = r"\\u(0000|d[89a-f][0-9a-f]{2})"


def json_text(column: ColumnElement[Any], name: str) -> ColumnElement[str]:
    """A string member of a column of JSON objects.

    PostgreSQL cannot read members of JSON with U+0000 or a lone surrogate, and older rows contain some.
    """
    readable = cast(func.regexp_replace(column.cast(Text), UNREADABLE, r"\\ufffd", "gi"), JSON)
    found: ColumnElement[str] = readable[name].as_string()
    return found


async def require_attempt(tx: Transaction, run: RunKey, attempt: int) -> None:
    """Raise `AttemptOver` if another process has taken the run over from this attempt.

    Otherwise the run cannot be taken over before the transaction ends.
    """
    await tx.execute(_REQUIRE_ATTEMPT, {**run._asdict(), "attempt": attempt})


_REQUIRE_ATTEMPT = text("SELECT require_attempt(:account_id, :run_id, :attempt)")


def page_of(
    statement: Select[Any], page: PageRequest, *, at: ColumnElement[Any], id_: ColumnElement[Any]
) -> Select[Any]:
    """The rows of a page, newest first by time and id, and one more if there is a next page."""
    statement = statement.order_by(at.desc(), id_.desc()).limit(page.fetched)
    return statement if page.before is None else statement.where(tuple_(at, id_) < page.before)


class DatabaseUnavailable(Unavailable):
    """The database is unavailable; try again later."""

    code = "database_unavailable"
    reason = ""
    """What the database answered, without any values; for the log."""
    is_refused = False

    @classmethod
    def because(cls, reason: str, *, is_away: bool = False, is_refused: bool = False) -> Self:
        """The error with its reason; `is_away`: there is no connection, whatever is executed."""
        error = cls()
        error.reason, error.is_refused, error.is_logged = reason, is_refused, is_away or is_refused
        return error


class AttemptOver(Exception):
    """Another process has taken the run over: what this attempt writes is refused."""


class NothingStored(Exception):
    """A statement that stores everything or nothing has stored nothing."""


class StatementFailed(Exception):
    """A statement failed; the text contains none of its values."""

    def __init__(self, message: str, *, by_values: bool) -> None:
        """`by_values`: its values are the cause, so that repeating it cannot help."""
        self.by_values = by_values
        super().__init__(message)


_RAISED_BY = {"RT001": AttemptOver, "RT002": NothingStored}
"""The SQLSTATEs of `require_attempt`; of `reserve_at_once` and `release_together`."""


class Database:
    """A pool of connections to one PostgreSQL."""

    def __init__(
        self, connector: Connector, direct: Connector, *, pool_size: int = POOL_SIZE, is_replica: bool = False
    ) -> None:
        """`direct` makes connections for what a connection pooler does not pass on."""
        self._connector, self._direct = connector, direct
        self._engine = connector.engine(
            pool_size=pool_size,
            max_overflow=0,
            pool_use_lifo=True,  # The last one has not been idle, and has prepared most statements.
            pool_timeout=_STATEMENT_S,
            json_serializer=dump_json,
            json_deserializer=load_json,
        )
        self._autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        # A migration of large tables takes longer than any other statement may.
        self._direct_engine = direct.engine(poolclass=NullPool)
        self.use = PoolUse(self._engine.pool)
        self.notifications = Notifications()
        self._availability, self._failures = _replicas_logs() if is_replica else _logs()

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        direct_url: str | None = None,
        password: PasswordSource | None = None,
        pool_size: int = POOL_SIZE,
        process_id: UUID | None = None,
    ) -> Self:
        """Open a pool and check connection and server; raises `DatabaseNotUsable`.

        `direct_url` leads to the same database past a connection pooler. With `process_id` another process
        can end the transactions of this one.
        """
        connector = Connector(url, password=password, process_id=process_id, statement_s=_STATEMENT_S)
        direct = Connector(url, password=password)
        if direct_url is not None:
            direct = Connector(direct_url, variable=DIRECT, password=password)
        database = cls(connector, direct, pool_size=pool_size)
        try:
            await _require_usable_server(connector, database._engine)
            if direct_url is not None:
                await _require_usable_server(direct, database._direct_engine)
        except BaseException:
            await database.aclose()
            raise
        return database

    @classmethod
    def replica(cls, url: str, password: PasswordSource | None, *, pool_size: int = POOL_SIZE) -> Self:
        """A pool of connections to DATABASE_READ_URL, which is connected to when it is used.

        Raises `DatabaseNotUsable` if it is no URL.
        """
        connector = Connector(url, variable="DATABASE_READ_URL", password=password, statement_s=_STATEMENT_S)
        return cls(connector, connector, pool_size=pool_size, is_replica=True)

    @property
    def is_pooled(self) -> bool:
        """Whether a connection pooler is between this process and the server."""
        return self._connector.is_pooled

    def url_for(self, role: str, password: str) -> str:
        return self._connector.url_for(role, password)

    @property
    def is_failing(self) -> bool:
        """Whether statements have failed lately, and not because of their values."""
        return bool(self._failures)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """A transaction: commits at the end of the body, rolls back on an exception."""
        with self._watched(writes=True):
            async with self.use.connected(self._engine.begin()) as connection:
                yield Transaction(connection)

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Transaction]:
        """A transaction of one statement, which commits itself: one round trip instead of three."""
        with self._watched(writes=True):
            async with self._self_committing() as connection:
                yield Transaction(connection)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Snapshot]:
        """A view for one statement. Without a transaction it takes one round trip instead of three."""
        with self._watched():
            async with self._self_committing() as connection:
                yield Snapshot(connection)

    def _self_committing(self) -> SelfCommitting:
        return SelfCommitting(self._autocommit, self.use.opening, self._connector.statement_name)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Snapshot]:
        """A consistent, read-only view for several statements."""
        with self._watched():
            async with self.use.connected(self._engine.connect()) as connection:
                await connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
                yield Snapshot(connection)

    async def listen(self, channel: str, notify: Callable[[str], None]) -> None:
        """Pass on the payloads of a channel until the connection is lost; to be called again then.

        Where there is no connection that passes them on, this says so once and does nothing.
        """
        if self.is_pooled and self._direct.variable != DIRECT:
            self.notifications.poll()
            await anyio.sleep_forever()
        with self._watched_direct():
            async with self._direct_engine.connect() as connection:
                await self.notifications.pass_on(connection, channel, notify, send=self._notify)

    async def _notify(self, channel: str) -> None:
        async with self.write() as tx:
            await tx.execute(text("SELECT pg_notify(:channel, '')"), {"channel": channel})

    @contextmanager
    def _watched(self, *, writes: bool = False) -> Iterator[None]:
        """As `_translate_errors`; and log when the database goes and when it is back."""
        try:
            with _translate_errors(writes=writes):
                yield
        except DatabaseUnavailable as error:
            if error.is_logged:
                (self._failures if error.is_refused else self._availability).failed(error.reason)
            raise
        except StatementFailed as error:
            if not error.by_values:
                self._failures.failed(str(error))
            raise
        self._availability.worked()
        self._failures.worked()

    @contextmanager
    def _watched_direct(self) -> Iterator[None]:
        """As `_watched`; what is only at another URL is no outage of the database."""
        if self._direct.variable != DIRECT:
            with self._watched():
                yield
            return
        try:
            with _translate_errors():
                yield
        except DatabaseUnavailable as error:
            self.notifications.failed(error.reason)
            raise

    async def ping(self) -> None:
        """Raise `DatabaseUnavailable` if it does not respond, or a statement about its tables fails."""
        try:
            async with self.read() as reader:
                await reader.execute(usability.PROBE, {"number": 1})
        except StatementFailed as error:
            raise DatabaseUnavailable.because(str(error)) from error

    async def time(self) -> datetime:
        async with self.read() as reader:
            moment: datetime = (await reader.execute(text("SELECT clock_timestamp()"))).scalar_one()
            return moment

    async def migrate(self) -> str | None:
        """Run every missing migration; returns the revision of a newer schema that this release can use.

        Raises `DatabaseNotUsable` if that is impossible.
        """
        try:
            with _translate_errors():
                async with self._direct_engine.begin() as connection:
                    return await connection.run_sync(upgrade)
        except SchemaUnknown:
            raise self._connector.not_usable(usability.UNKNOWN) from None
        except DatabaseUnavailable as error:
            problem = f"it cannot be migrated ({error.reason}); use the role that owns its tables"
            raise self._direct.not_usable(problem) from error

    async def require_usable(self) -> str | None:
        """As `require_usable_schema`; raises `DatabaseNotUsable`, also if the role may not write."""
        try:
            newer = await self.require_usable_schema()
            async with self.read() as reader:
                may_write: bool | None = (await reader.execute(usability.MAY_WRITE)).scalar_one()
        except SchemaOutdated:
            raise self._connector.not_usable(usability.OUTDATED) from None
        except SchemaUnknown:
            raise self._connector.not_usable(usability.UNKNOWN) from None
        except DatabaseUnavailable as error:
            raise self._connector.not_usable(f"it cannot be read ({error.reason})") from error
        if not may_write:
            raise self._connector.not_usable(usability.NOT_WRITABLE)
        return newer

    async def require_usable_schema(self) -> str | None:
        """The revision of a newer schema that this release can use; None if the schema is its own.

        Raises `SchemaOutdated` or `SchemaUnknown`.
        """
        with _translate_errors():
            async with self._engine.connect() as connection:
                return await connection.run_sync(usable_revision)

    async def aclose(self) -> None:
        await self._engine.dispose()
        await self._direct_engine.dispose()


def _logs() -> tuple[DependencyLog, DependencyLog]:
    """Of whether a database is there, and of statements that fail."""
    return (
        DependencyLog("database.unavailable", "database.available", quiet_s=QUIET_S),
        DependencyLog("database.statements_fail", "database.statements_work", quiet_s=_FAILING_S),
    )


def _replicas_logs() -> tuple[DependencyLog, DependencyLog]:
    """As `_logs`, of the replica."""
    return (
        DependencyLog("read_database.unavailable", "read_database.available", quiet_s=QUIET_S),
        DependencyLog("read_database.statements_fail", "read_database.statements_work", quiet_s=_FAILING_S),
    )


async def _require_usable_server(connector: Connector, engine: AsyncEngine) -> None:
    try:
        async with engine.connect() as connection:
            server = (await connection.execute(usability.SERVER)).one()
    except (SQLAlchemyError, OSError, ValueError, TypeError, TimeoutError) as error:
        raise connector.not_usable(errors.connecting_problem(error, connector.url)) from error
    if (problem := usability.server_problem(server)) is not None:
        raise connector.not_usable(problem)


@contextmanager
def _translate_errors(*, writes: bool = False) -> Iterator[None]:
    """Raise `DatabaseUnavailable` for temporary errors, `StatementFailed` for those not in `_RAISED_BY`."""
    try:
        yield
    except StatementError as error:
        if (raised := _RAISED_BY.get(errors.sqlstate_of(error) or "")) is not None:
            raise raised from None
        text_ = errors.redacted_text(error)
        if errors.is_temporary(error) or (writes and errors.sqlstate_of(error) == errors.READ_ONLY):
            is_refused = errors.is_refused(error)
            raise DatabaseUnavailable.because(text_, is_away=is_away(error), is_refused=is_refused) from error
        # Without the original error, which quotes rows and parameters: the traceback is logged.
        raise StatementFailed(text_, by_values=errors.is_by_values(error)).with_traceback(
            error.__traceback__
        ) from None
    except PasswordNotAvailable as error:
        raise DatabaseUnavailable.because(str(error), is_away=True) from error
    except (PoolTimeoutError, OSError, TimeoutError) as error:
        raise DatabaseUnavailable.because(type(error).__name__, is_away=True) from error
