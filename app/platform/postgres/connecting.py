"""Connector: makes connections to a database, also through a connection pooler.

A pooler may give each transaction to another connection of the server. So nothing is left in a session, and
statements are prepared under a name only where no pooler is: see docs/decisions/0083.
"""

import time
from collections.abc import Collection
from itertools import count
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import asyncpg
from sqlalchemy import event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.asyncpg import dialect as asyncpg_dialect
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import LRUCache

from app.platform.postgres.errors import DRIVER_ERRORS, connecting_problem
from app.platform.postgres.passwords import PasswordSource
from app.platform.postgres.usability import DatabaseNotUsable

IDLE_S = 0.5
"""A connection that was not used for so long makes a round trip before it is used."""

_CONNECT_S = 5
_DIALECT: Any = asyncpg_dialect()  # type: ignore[no-untyped-call]
_IDLE_TRANSACTION_S = 10
"""Between two statements of a transaction; then the server closes the connection."""


DIRECT = "DATABASE_DIRECT_URL"

_REFUSED = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.ProtocolViolationError)
"""What servers and poolers answer to a wrong password."""


_OWN_TYPES = 10_000
"""Types with smaller numbers are PostgreSQL's own, and the same in every database."""

_TYPES: dict[frozenset[int], Any] = {}
"""Those that connections of this process have asked for."""

_COMPILED: LRUCache[Any, Any] = LRUCache(1000)
"""Statements, for all engines of this process."""

_NOT_ASKED = SimpleNamespace(name="known")


class Connector:
    """Makes connections that are named after a process."""

    def __init__(
        self,
        url: str,
        *,
        variable: str = "DATABASE_URL",
        password: PasswordSource | None = None,
        process_id: UUID | None = None,
        statement_s: int | None = None,
    ) -> None:
        """`variable` is the setting that the URL is from; raises `DatabaseNotUsable` if it is none.

        `password` has that of each new connection, in place of the URL's.
        Without `statement_s` statements and transactions may take as long as they like.
        """
        self.url = url
        self.variable = variable
        self._password = password
        self.is_pooled = False
        """Whether a connection has been found to be a pooler's."""
        try:
            _, options = _DIALECT.create_connect_args(_asyncpg_url(url))
        except (ArgumentError, ValueError) as error:
            raise self.not_usable(connecting_problem(error, url)) from None
        self._options: dict[str, Any] = options | {
            "timeout": _CONNECT_S,
            "command_timeout": statement_s,
            "connection_class": _Connection if statement_s is None else _LimitedConnection,
            # Statements without a name are sent again with each execution, in one message with it.
            "statement_cache_size": 0,
            "server_settings": {"application_name": application_name(process_id), "TimeZone": "UTC"},
        }
        self._numbers = count()

    def not_usable(self, problem: str) -> DatabaseNotUsable:
        """The error that names the variable, the database and the problem."""
        return DatabaseNotUsable(self.url, problem, variable=self.variable)

    def url_for(self, role: str, password: str) -> str:
        url = make_url(self.url).set(drivername="postgresql", username=role, password=password)
        return url.render_as_string(hide_password=False)

    def engine(self, **options: Any) -> AsyncEngine:
        arguments = {"async_creator_fn": self.connect, "prepared_statement_name_func": self.statement_name}
        engine = create_async_engine(
            "postgresql+runtally://",
            hide_parameters=True,
            connect_args=arguments,
            execution_options={"compiled_cache": _COMPILED},
            **options,
        )
        _check_idle_connections(engine)
        return engine

    async def connect(self) -> asyncpg.Connection:
        """Connect, and find out whether that is to a server or to a pooler, which answers for several."""
        password = await self._read_password(refused=None)
        try:
            connection = await self._connected(password)
        except _REFUSED:
            # It may have been replaced since it was read.
            if password is None:
                raise
            connection = await self._connected(await self._read_password(refused=password))
        try:
            process = await connection.fetchval("SELECT pg_backend_pid()")
            # What cancels a statement is sent to a pooler, so it announces a process of its own.
            self.is_pooled |= process != connection.get_server_pid()
            # `isinstance` is true for each connection of asyncpg.
            if type(connection) is _LimitedConnection:
                await connection.limit(is_pooled=self.is_pooled)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _read_password(self, *, refused: str | None) -> str | None:
        """`None` if it is part of the URL."""
        return await self._password.read(refused=refused) if self._password is not None else None

    async def _connected(self, password: str | None) -> asyncpg.Connection:
        options = self._options if password is None else {**self._options, "password": password}
        connection: asyncpg.Connection = await asyncpg.connect(**options)
        return connection

    def statement_name(self) -> str:
        return "" if self.is_pooled else f"runtally_{next(self._numbers)}"


class _Dialect(asyncpg_dialect):
    """Equal to those with the same JSON: a statement is compiled once, not for each engine of a process."""

    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Dialect) and self._json() == other._json()

    def __hash__(self) -> int:
        return hash(self._json())

    def _json(self) -> tuple[Any, Any]:
        return self._json_serializer, self._json_deserializer


registry.register("postgresql.runtally", __name__, _Dialect.__name__)


class _Connection(asyncpg.Connection):
    """A connection that asks the server for a type only if no other has asked: asyncpg's own ask each.

    It is several round trips, with the most expensive statement of a new connection.
    """

    async def _introspect_types(self, numbers: Collection[int], limit_s: float | None) -> tuple[Any, Any]:
        """See asyncpg: the types, and a statement with whose name it finds that the server was asked."""
        key = frozenset(numbers)
        if key not in _TYPES:
            found: tuple[Any, Any] = await super()._introspect_types(  # type: ignore[misc]
                numbers, limit_s
            )
            if max(key) >= _OWN_TYPES:
                return found
            _TYPES[key], _ = found
        return _TYPES[key], _NOT_ASKED


class _LimitedConnection(_Connection):
    """A process that stands still within a transaction must not hold its locks for ever."""

    _with_begin = ""

    async def limit(self, *, is_pooled: bool) -> None:
        """Set the limit: through a pooler with each transaction, because others get the session next."""
        limit = f"idle_in_transaction_session_timeout = '{_IDLE_TRANSACTION_S}s'"
        if is_pooled:
            self._with_begin = f" SET LOCAL {limit}"
        else:
            await self.execute(f"SET {limit}")

    async def execute(self, query: str, *args: Any, **options: Any) -> str:
        # In one message with the beginning: no round trip more.
        if query.startswith("BEGIN"):
            query += self._with_begin
        return await super().execute(query, *args, **options)


def application_name(process_id: UUID | None) -> str:
    """What the connections of a process are called in the database."""
    return "runtally" if process_id is None else f"runtally {process_id}"


def _check_idle_connections(engine: AsyncEngine) -> None:
    """Replace connections that the database has closed, for example because it was restarted.

    SQLAlchemy's own check is made before every use, and costs several round trips each time. Here only a
    connection that was idle makes one: the network may have dropped it silently.
    """

    @event.listens_for(engine.sync_engine, "checkin")
    def note_return(_connection: Any, record: Any) -> None:
        record.info["returned_at"] = time.monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def check(connection: Any, record: Any, _proxy: Any) -> None:
        if record.driver_connection.is_closed():
            raise InvalidatePoolError
        returned_at = record.info.get("returned_at")
        if returned_at is None or time.monotonic() - returned_at < IDLE_S:
            return
        try:
            connection.run_async(lambda driver: driver.execute("SELECT 1"))
        except (*DRIVER_ERRORS, OSError) as error:
            raise InvalidatePoolError from error


def _asyncpg_url(url: str) -> URL:
    parsed = make_url(url).set(drivername="postgresql+asyncpg")
    # asyncpg's name for the sslmode of libpq is ssl.
    if (sslmode := parsed.query.get("sslmode")) is not None:
        parsed = parsed.difference_update_query(["sslmode"]).update_query_dict({"ssl": sslmode})
    return parsed
