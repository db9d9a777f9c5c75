"""The database: transactions, snapshots, and the only commit."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NewType, TypeAlias

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import ColumnElement, DateTime, MetaData, Select, Text, cast, func, text, tuple_
from sqlalchemy.dialects.postgresql import JSON
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.errors import Unavailable
from app.pagination import PageRequest
from app.storable import storable

Transaction = NewType("Transaction", AsyncConnection)
"""Open for writing; whoever opened it commits by leaving it."""

Snapshot = NewType("Snapshot", AsyncConnection)
"""Read only, by type and by the database."""

Reader: TypeAlias = Transaction | Snapshot

POOL_SIZE = 8
"""More connections are slower from one process, not faster."""

_CONNECT_S = 5
_STATEMENT_S = 30
_ROOT = Path(__file__).parent.parent
_UNAVAILABLE_STATES = ("08", "57P", "53", "55000")
"""SQLSTATE classes that say the server cannot serve now, not that a statement is wrong."""

_BAD_DATA = "22"
"""The SQLSTATE class of values that cannot be taken."""

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
"""`json`, not `jsonb`: it keeps the order of names, and replays repeat streams byte for byte."""


_UNREADABLE = r"\\u(0000|d[89a-f][0-9a-f]{2})"


def json_text(column: ColumnElement[Any], name: str) -> ColumnElement[str]:
    """A text in a column of JSON objects.

    PostgreSQL looks into no JSON that holds U+0000 or half a surrogate pair, and older rows have some.
    """
    readable = cast(func.regexp_replace(column.cast(Text), _UNREADABLE, r"\\ufffd", "gi"), JSON)
    found: ColumnElement[str] = readable[name].as_string()
    return found


def page_of(
    statement: Select[Any], page: PageRequest, *, at: ColumnElement[Any], id_: ColumnElement[Any]
) -> Select[Any]:
    """The rows of a page, newest first by time and id, and one more if there is a next page."""
    statement = statement.order_by(at.desc(), id_.desc()).limit(page.fetched)
    return statement if page.before is None else statement.where(tuple_(at, id_) < page.before)


class DatabaseUnavailable(Unavailable):
    """The database does not answer; try again later."""

    code = "database_unavailable"


class SchemaOutdated(Unavailable):
    """The database has an older schema than this version needs: run `runtally migrate`."""

    code = "schema_outdated"


class SchemaUnknown(Unavailable):
    """The database has a schema this version does not know: a newer Runtally has migrated it."""

    code = "schema_unknown"


class StatementFailed(Exception):
    """The database refuses a statement; the text holds no value of it."""


class Database:
    """A pool of connections to one PostgreSQL."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @classmethod
    async def open(cls, url: str, *, pool_size: int = POOL_SIZE) -> "Database":
        """Open a pool and make sure that the database answers; raises `DatabaseUnavailable`."""
        engine = create_async_engine(
            _asyncpg_url(url),
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=_STATEMENT_S,
            pool_pre_ping=True,
            json_serializer=_dump_json,
            json_deserializer=_load_json,
            hide_parameters=True,
            connect_args={
                "timeout": _CONNECT_S,
                "command_timeout": _STATEMENT_S,
                "server_settings": {"application_name": "runtally", "TimeZone": "UTC"},
            },
        )
        database = cls(engine)
        try:
            await database.ping()
        except BaseException:
            await engine.dispose()
            raise
        return database

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Leaving commits; an exception rolls back and passes on."""
        with _translate_errors():
            async with self._engine.begin() as connection:
                yield Transaction(connection)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Snapshot]:
        """One consistent, read-only view."""
        with _translate_errors():
            async with self._engine.connect() as connection:
                await connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
                yield Snapshot(connection)

    async def ping(self) -> None:
        """Raise `DatabaseUnavailable` unless the database answers."""
        async with self.snapshot() as reader:
            await reader.execute(text("SELECT 1"))

    def connections_in_use(self) -> int:
        """How many connections are open for somebody right now."""
        pool: Any = self._engine.pool
        return int(pool.checkedout())

    async def migrate(self) -> None:
        """Run every migration that is missing."""
        with _translate_errors():
            async with self._engine.begin() as connection:
                await connection.run_sync(_upgrade)

    async def require_current_schema(self) -> None:
        """Raise `SchemaOutdated` or `SchemaUnknown` unless the schema is this version's."""
        scripts = ScriptDirectory.from_config(_alembic_config())
        with _translate_errors():
            async with self._engine.connect() as connection:
                current = await connection.run_sync(_revision)
        if current == scripts.get_current_head():
            return
        known = {script.revision for script in scripts.walk_revisions()}
        if current is None or current in known:
            raise SchemaOutdated
        raise SchemaUnknown

    async def aclose(self) -> None:
        """Close every connection."""
        await self._engine.dispose()


def _dump_json(value: Any) -> str:
    return json.dumps(storable(value))


def _load_json(text: str) -> Any:
    # Older rows hold text as a model wrote it.
    return storable(json.loads(text))


def _alembic_config() -> Config:
    config = Config(_ROOT / "alembic.ini")
    config.set_main_option("script_location", str(_ROOT / "migrations"))
    return config


def _upgrade(connection: Connection) -> None:
    config = _alembic_config()
    config.attributes["connection"] = connection
    # Two servers that start together migrate one after the other.
    connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('runtally.migrate'))"))
    command.upgrade(config, "head")


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _asyncpg_url(url: str) -> URL:
    parsed = make_url(url).set(drivername="postgresql+asyncpg")
    # What libpq calls sslmode, asyncpg calls ssl.
    if (sslmode := parsed.query.get("sslmode")) is not None:
        parsed = parsed.difference_update_query(["sslmode"]).update_query_dict({"ssl": sslmode})
    return parsed


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Say `DatabaseUnavailable` for all that means "not now", and `StatementFailed` for what is a bug."""
    try:
        yield
    except StatementError as error:
        if _is_temporary(error):
            raise DatabaseUnavailable from error
        # Not from the error: it and its causes quote rows and parameters, and end in the log.
        raise StatementFailed(_redacted_text(error)).with_traceback(error.__traceback__) from None
    except (PoolTimeoutError, OSError, TimeoutError) as error:
        raise DatabaseUnavailable from error


def _is_temporary(error: StatementError) -> bool:
    if isinstance(error.orig and error.orig.__cause__, ValueError):
        # What asyncpg cannot encode; it calls that an error of its interface.
        return False
    if isinstance(error, OperationalError | InterfaceError):
        return True
    invalidated = isinstance(error, DBAPIError) and error.connection_invalidated
    return invalidated or _sqlstate(error).startswith(_UNAVAILABLE_STATES)


def _redacted_text(error: StatementError) -> str:
    """What is known of it without anybody's data."""
    state = _sqlstate(error)
    cause = error.orig and (error.orig.__cause__ or error.orig)
    what = f"{type(cause).__name__} {state}".strip()
    # Errors of the first class quote the value; in others that is left to the lines after the first.
    quotes = not state or state.startswith(_BAD_DATA)
    return what if quotes else f"{what}: {str(cause).partition(chr(10))[0]}"


def _sqlstate(error: StatementError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""
