"""Statements that the driver executes: the layers of SQLAlchemy take more CPU than it does."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Self, TypeAlias

import asyncpg
from sqlalchemy import Executable, text
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError, InterfaceError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import PoolProxiedConnection
from sqlalchemy.util import greenlet_spawn

from app.platform.postgres.errors import DRIVER_ERRORS

Row: TypeAlias = Mapping[Any, Any]
"""By the names of its columns."""


class Prepared:
    """A statement that requests or runs execute, whose text does not depend on its values.

    Values and columns are as the driver has them: JSON is stored from text.
    """

    def __init__(self, statement: Executable | str) -> None:
        self._statement: Any = text(statement) if isinstance(statement, str) else statement
        self._compiled: _Compiled | None = None

    async def fetch(self, connection: AsyncConnection, values: Mapping[str, Any]) -> Sequence[Row]:
        """Execute it; within a transaction, which SQLAlchemy begins with its first statement, that does."""
        if isinstance(connection, SelfCommitting):
            return await connection.fetch(self, values)
        return (await connection.execute(self._statement, values)).mappings().all()

    def compiled(self, dialect: Dialect) -> "_Compiled":
        if self._compiled is None:
            compiled = self._statement.compile(dialect=dialect)
            known = {
                compiled.bind_names[each]: each.value for each in compiled.binds.values() if not each.required
            }
            self._compiled = _Compiled(str(compiled), tuple(compiled.positiontup), known)
        return self._compiled


class _Compiled(NamedTuple):
    text: str
    names: Sequence[str]
    """Of its parameters, in order."""
    constants: Mapping[str, Any]
    """Of the expression."""

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        constants = self.constants
        return [values[name] if name in values else constants[name] for name in self.names]


class SelfCommitting(AsyncConnection):
    """A connection for statements that commit themselves, one at a time.

    It is taken from the pool when it is needed, and returned without a task: there is no transaction to roll
    back, so that waits for nothing.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        waiting: Callable[[], AbstractContextManager[None]],
        name: Callable[[], str],
    ) -> None:
        """`waiting` counts what waits for the pool; `name` has the names of prepared statements."""
        super().__init__(engine)
        self._waiting, self._name = waiting, name

    async def __aenter__(self) -> Self:
        """Nothing is opened yet."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Return the connection to the pool."""
        if self.sync_connection is not None:
            await self.close()

    async def execute(self, *arguments: Any, **options: Any) -> Any:
        """See SQLAlchemy."""
        await self._open()
        return await super().execute(*arguments, **options)

    async def exec_driver_sql(self, *arguments: Any, **options: Any) -> Any:
        """See SQLAlchemy."""
        await self._open()
        return await super().exec_driver_sql(*arguments, **options)

    async def _open(self) -> None:
        if self.sync_connection is None:
            with self._waiting():
                await self.start()

    async def fetch(self, statement: Prepared, values: Mapping[str, Any]) -> Sequence[Row]:
        """Execute a statement; raises what SQLAlchemy would."""
        compiled = statement.compiled(self.sync_engine.dialect)
        connection = await self._connected()
        try:
            prepared = connection.info.get(statement)
            if prepared is None:
                driver: Any = connection.driver_connection
                prepared = connection.info[statement] = await driver.prepare(compiled.text, name=self._name())
            arguments = compiled.arguments(values)
            self.sync_engine.dispatch.before_cursor_execute(
                connection, None, compiled.text, arguments, None, False
            )
            rows = [dict(row) for row in await prepared.fetch(*arguments)]
        except BaseException as error:
            if isinstance(error, Exception):
                # It may have become invalid; the driver has closed a connection that the server is closing.
                connection.info.pop(statement, None)
                connection.close()
            else:
                # The server is asked to end it, and the connection is closed.
                await greenlet_spawn(connection.invalidate)
            if isinstance(error, DRIVER_ERRORS):
                raise as_of_sqlalchemy(error, self.sync_engine.dialect) from error
            raise
        connection.close()
        return rows

    async def _connected(self) -> PoolProxiedConnection:
        dialect = self.sync_engine.dialect
        error_type = dialect.loaded_dbapi.Error
        try:
            with self._waiting():
                return await greenlet_spawn(self.sync_engine.pool.connect)
        except error_type as error:
            raise DBAPIError.instance(
                None, None, error, error_type, hide_parameters=True, dialect=dialect
            ) from error


def as_of_sqlalchemy(error: BaseException, dialect: Dialect) -> DBAPIError:
    """What SQLAlchemy raises for an error of the driver."""
    orig: Any = dialect.loaded_dbapi.Error(str(error), error)
    orig.__cause__ = error
    kind = DBAPIError if isinstance(error, asyncpg.PostgresError) else InterfaceError
    return kind(None, None, orig, hide_parameters=True)
