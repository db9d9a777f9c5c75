"""A database for test after test: emptying it takes a quarter of the CPU of another copy of the template."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import asyncpg

NOTE_CHANGES = """
    CREATE SCHEMA reuse;
    CREATE SEQUENCE reuse.changes;
    CREATE FUNCTION reuse.note() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS
        $$ BEGIN PERFORM nextval('reuse.changes'); END $$;
    CREATE EVENT TRIGGER note_changes ON ddl_command_end EXECUTE FUNCTION reuse.note();
"""
"""From now on each change of the schema is counted, also one that is rolled back."""

EMPTY = """
    DO $empty$
    DECLARE
        revision text := (SELECT string_agg(version_num, ' ') FROM alembic_version);
        name regclass;
    BEGIN
        -- Connections that are being closed are gone in a moment.
        FOR _ IN 1..50 LOOP
            EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
                AND backend_type = 'client backend' AND pid <> pg_backend_pid());
            PERFORM pg_sleep(0.002), pg_stat_clear_snapshot();
        END LOOP;
        ASSERT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
            AND backend_type = 'client backend' AND pid <> pg_backend_pid()), 'in use';
        ASSERT pg_sequence_last_value('reuse.changes') IS NULL, 'another schema';
        ASSERT NOT EXISTS (SELECT FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase
            WHERE datname = current_database()), 'settings of its own';
        ASSERT revision = '{revision}', 'another revision';
        -- No trigger.
        SET LOCAL session_replication_role = replica;
        SET LOCAL lock_timeout = '10s';
        FOR name IN SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace
            AND relkind = 'r' AND pg_relation_size(oid) > 0 AND relname <> 'alembic_version' LOOP
            -- Nothing gives back the space of rows.
            ASSERT pg_relation_size(name) < 1000000, 'too large';
            EXECUTE format('DELETE FROM %s', name);
        END LOOP;
        PERFORM setval(seqrelid, seqstart, false) FROM pg_sequence
            WHERE pg_sequence_last_value(seqrelid) IS NOT NULL;
    END $empty$
"""
"""Fails where emptying is not enough to have a new database."""


class ReusedDatabase:
    """Lends a migrated database that is empty, to one test at a time.

    It is replaced once a test has changed more than rows, or left a connection open.
    """

    def __init__(self, create: Callable[[], AbstractAsyncContextManager[str]]) -> None:
        self._create = create
        self._stack = AsyncExitStack()
        self._opened: tuple[str, asyncpg.Connection, str] | None = None

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[str]:
        """Its URL, until it is emptied."""
        url, connection, empty = self._opened or await self._open()
        yield url
        try:
            await connection.execute(empty)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await self.aclose()

    async def _open(self) -> tuple[str, asyncpg.Connection, str]:
        url = await self._stack.enter_async_context(self._create())
        connection = await asyncpg.connect(url)
        self._stack.push_async_callback(connection.close)
        revision = await connection.fetchval("SELECT version_num FROM alembic_version")
        await connection.execute(NOTE_CHANGES)
        self._opened = (url, connection, EMPTY.format(revision=revision))
        return self._opened

    async def aclose(self) -> None:
        """Drop it; the next test gets another one."""
        self._opened = None
        await self._stack.aclose()
