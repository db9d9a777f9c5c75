"""Database: transactions and snapshots; the only place that commits."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, NewType, NoReturn, Self, TypeAlias
from uuid import UUID

import anyio
from sqlalchemy import ColumnElement, DateTime, MetaData, Select, Text, cast, event, func, text, tuple_
from sqlalchemy.dialects.postgresql import JSON
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, InvalidatePoolError, SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from app.errors import Unavailable
from app.ids import RunKey
from app.platform.background import first_of
from app.platform.concurrency.pool_use import PoolUse
from app.platform.logs.dependency import QUIET_S, DependencyLog
from app.platform.pagination import PageRequest
from app.platform.postgres.errors import (
    READ_ONLY,
    connecting_problem,
    is_away,
    is_by_values,
    is_temporary,
    redacted_text,
    sqlstate_of,
)
from app.platform.postgres.usability import (
    MAY_WRITE,
    NOT_WRITABLE,
    OUTDATED,
    SERVER,
    UNKNOWN,
    DatabaseNotUsable,
    require_usable_server,
)
from app.platform.schema.compatibility import SchemaOutdated, SchemaUnknown
from app.platform.schema.repository import upgrade, usable_revision
from app.platform.serialization.stored_json import dump_json, load_json

Transaction = NewType("Transaction", AsyncConnection)
"""A writable transaction; leaving `Database.transaction()` commits it."""

Snapshot = NewType("Snapshot", AsyncConnection)
"""A read-only view, enforced by the type; one of several statements by the database, too."""

Reader: TypeAlias = Transaction | Snapshot

POOL_SIZE = 8
"""More connections make one process slower, not faster."""

_IDLE_S = 0.5
"""A connection that was not used for so long makes a round trip before it is used."""

_LISTEN_CHECK_S = 15
_CONNECT_S = 5
_STATEMENT_S = 30
_IDLE_TRANSACTION_S = 10
"""Between two statements of a transaction; then the server closes the connection."""

_ATTEMPT_OVER = "RT001"
"""The SQLSTATE of the function `require_attempt`."""

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

    @classmethod
    def because(cls, reason: str, *, is_away: bool = False) -> Self:
        """The error with its reason; `is_away`: there is no connection, whatever is executed."""
        error = cls()
        error.reason, error.is_logged = reason, is_away
        return error


class AttemptOver(Exception):
    """Another process has taken the run over: what this attempt writes is refused."""


class StatementFailed(Exception):
    """A statement failed; the text contains none of its values."""

    def __init__(self, message: str, *, by_values: bool) -> None:
        """`by_values`: its values are the cause, so that repeating it cannot help."""
        self.by_values = by_values
        super().__init__(message)


class Database:
    """A pool of connections to one PostgreSQL."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._url = engine.url.render_as_string(hide_password=False)
        self._autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
        self.use = PoolUse(engine.pool)
        self._availability = DependencyLog(
            unavailable="database.unavailable", available="database.available", quiet_s=QUIET_S
        )

    @classmethod
    async def open(cls, url: str, *, pool_size: int = POOL_SIZE, process_id: UUID | None = None) -> Self:
        """Open a pool and check connection and server; raises `DatabaseNotUsable`.

        With `process_id` another process can end the connections of this one.
        """
        try:
            engine = cls._engine_of(url, pool_size, process_id)
        except (ArgumentError, ValueError) as error:
            raise DatabaseNotUsable(url, connecting_problem(error, url)) from None
        database = cls(engine)
        try:
            await database._require_usable_server()
        except BaseException:
            await engine.dispose()
            raise
        return database

    @staticmethod
    def _engine_of(url: str, pool_size: int, process_id: UUID | None) -> AsyncEngine:
        engine = create_async_engine(
            _asyncpg_url(url),
            pool_size=pool_size,
            # For `listen`, which keeps one.
            max_overflow=1,
            pool_timeout=_STATEMENT_S,
            json_serializer=dump_json,
            json_deserializer=load_json,
            hide_parameters=True,
            connect_args=_connection_options(process_id) | {"command_timeout": _STATEMENT_S},
        )
        _limit_idle_transactions(engine)
        _check_idle_connections(engine)
        return engine

    async def _require_usable_server(self) -> None:
        try:
            async with self._autocommit.connect() as connection:
                server = (await connection.execute(SERVER)).one()
        except (SQLAlchemyError, OSError, ValueError, TypeError, TimeoutError) as error:
            raise DatabaseNotUsable(self._url, connecting_problem(error, self._url)) from error
        require_usable_server(self._url, server)

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
            async with self.use.connected(self._autocommit.connect()) as connection:
                yield Transaction(connection)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Snapshot]:
        """A view for one statement. Without a transaction it takes one round trip instead of three."""
        with self._watched():
            async with self.use.connected(self._autocommit.connect()) as connection:
                yield Snapshot(connection)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Snapshot]:
        """A consistent, read-only view for several statements."""
        with self._watched():
            async with self.use.connected(self._engine.connect()) as connection:
                await connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
                yield Snapshot(connection)

    async def listen(self, channel: str, notify: Callable[[str], None]) -> NoReturn:
        """Pass on the payloads of a channel; keeps a connection, and raises when that is lost."""
        lost = asyncio.Event()
        with self._watched():
            async with self._autocommit.connect() as connection:
                driver: Any = (await connection.get_raw_connection()).driver_connection
                self.use.listening += 1
                driver.add_termination_listener(lambda _: lost.set())
                await driver.add_listener(channel, lambda *notification: notify(notification[-1]))
                try:
                    while True:
                        await first_of(lost.wait(), timeout_s=_LISTEN_CHECK_S)
                        # The network may have dropped the connection silently.
                        await connection.execute(text("SELECT 1"))
                finally:
                    # In the pool it would go on to listen.
                    with anyio.CancelScope(shield=True):
                        await connection.invalidate()
                    self.use.listening -= 1

    @contextmanager
    def _watched(self, *, writes: bool = False) -> Iterator[None]:
        """As `_translate_errors`; and log when the database goes and when it is back."""
        try:
            with _translate_errors(writes=writes):
                yield
        except DatabaseUnavailable as error:
            if error.is_logged:
                self._availability.failed(error.reason)
            raise
        self._availability.worked()

    async def ping(self) -> None:
        """Raise `DatabaseUnavailable` if the database does not respond."""
        async with self.read() as reader:
            await reader.execute(text("SELECT 1"))

    async def time(self) -> datetime:
        """The database's clock."""
        async with self.read() as reader:
            moment: datetime = (await reader.execute(text("SELECT clock_timestamp()"))).scalar_one()
            return moment

    async def migrate(self) -> str | None:
        """Run every missing migration; returns the revision of a newer schema that this release can use.

        Raises `DatabaseNotUsable` if that is impossible.
        """
        # A migration of large tables takes longer than any other statement may.
        options: dict[str, Any] = {
            "poolclass": NullPool,
            "connect_args": _connection_options(process_id=None),
        }
        engine = create_async_engine(self._engine.url, hide_parameters=True, **options)
        try:
            with _translate_errors():
                async with engine.begin() as connection:
                    return await connection.run_sync(upgrade)
        except SchemaUnknown:
            raise DatabaseNotUsable(self._url, UNKNOWN) from None
        except DatabaseUnavailable as error:
            problem = f"it cannot be migrated ({error.reason}); use the role that owns its tables"
            raise DatabaseNotUsable(self._url, problem) from error
        finally:
            await engine.dispose()

    async def require_usable(self) -> str | None:
        """As `require_usable_schema`; raises `DatabaseNotUsable`, also if the role may not write."""
        try:
            newer = await self.require_usable_schema()
            async with self.read() as reader:
                may_write: bool | None = (await reader.execute(MAY_WRITE)).scalar_one()
        except SchemaOutdated:
            raise DatabaseNotUsable(self._url, OUTDATED) from None
        except SchemaUnknown:
            raise DatabaseNotUsable(self._url, UNKNOWN) from None
        except DatabaseUnavailable as error:
            raise DatabaseNotUsable(self._url, f"it cannot be read ({error.reason})") from error
        if not may_write:
            raise DatabaseNotUsable(self._url, NOT_WRITABLE)
        return newer

    async def require_usable_schema(self) -> str | None:
        """The revision of a newer schema that this release can use; None if the schema is its own.

        Raises `SchemaOutdated` or `SchemaUnknown`.
        """
        with _translate_errors():
            async with self._engine.connect() as connection:
                return await connection.run_sync(usable_revision)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._engine.dispose()


def application_name(process_id: UUID | None) -> str:
    """What the connections of a process are called in the database."""
    return "runtally" if process_id is None else f"runtally {process_id}"


def _connection_options(process_id: UUID | None) -> dict[str, Any]:
    settings = {"application_name": application_name(process_id), "TimeZone": "UTC"}
    return {"timeout": _CONNECT_S, "server_settings": settings}


def _limit_idle_transactions(engine: AsyncEngine) -> None:
    """A process that stands still within a transaction must not hold its locks for ever."""

    # Not a parameter of the connection: connection poolers refuse those they do not know.
    @event.listens_for(engine.sync_engine, "connect")
    def limit(connection: Any, _record: Any) -> None:
        statement = f"SET idle_in_transaction_session_timeout = '{_IDLE_TRANSACTION_S}s'"
        connection.run_async(lambda driver: driver.execute(statement))


def _check_idle_connections(engine: AsyncEngine) -> None:
    """Replace connections that the database has closed, for example because it was restarted.

    SQLAlchemy's own check is made before every use, and costs a round trip each time. Here only a connection
    that was idle makes one: the network may have dropped it silently.
    """
    dialect = engine.dialect

    @event.listens_for(engine.sync_engine, "checkin")
    def note_return(_connection: Any, record: Any) -> None:
        record.info["returned_at"] = time.monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def check(connection: Any, record: Any, _proxy: Any) -> None:
        if record.driver_connection.is_closed():
            raise InvalidatePoolError
        returned_at = record.info.get("returned_at")
        if returned_at is None or time.monotonic() - returned_at < _IDLE_S:
            return
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            if dialect.is_disconnect(error, connection, None):
                raise InvalidatePoolError from error
            raise


def _asyncpg_url(url: str) -> URL:
    parsed = make_url(url).set(drivername="postgresql+asyncpg")
    # asyncpg's name for the sslmode of libpq is ssl.
    if (sslmode := parsed.query.get("sslmode")) is not None:
        parsed = parsed.difference_update_query(["sslmode"]).update_query_dict({"ssl": sslmode})
    return parsed


@contextmanager
def _translate_errors(*, writes: bool = False) -> Iterator[None]:
    """Raise `DatabaseUnavailable` for temporary errors, `AttemptOver`, and `StatementFailed` for others."""
    try:
        yield
    except StatementError as error:
        if sqlstate_of(error) == _ATTEMPT_OVER:
            raise AttemptOver from None
        text_ = redacted_text(error)
        if is_temporary(error) or (writes and sqlstate_of(error) == READ_ONLY):
            raise DatabaseUnavailable.because(text_, is_away=is_away(error)) from error
        # Without the original error, which quotes rows and parameters: the traceback is logged.
        raise StatementFailed(text_, by_values=is_by_values(error)).with_traceback(
            error.__traceback__
        ) from None
    except (PoolTimeoutError, OSError, TimeoutError) as error:
        raise DatabaseUnavailable.because(type(error).__name__, is_away=True) from error
