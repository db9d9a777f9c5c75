"""SQL statements of tests, past the code that otherwise makes them, and waiting for what is stored."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event, text

from app.platform.db import Database
from tests.patience import PATIENCE_S


async def execute(database: Database, *statements: str, **parameters: object) -> None:
    """In one transaction."""
    async with database.transaction() as tx:
        for statement in statements:
            await tx.execute(text(statement), parameters)


async def rows(database: Database, statement: str, **parameters: object) -> Sequence[Any]:
    """What a statement selects."""
    async with database.snapshot() as reader:
        return (await reader.execute(text(statement), parameters)).all()


async def scalar(database: Database, statement: str, **parameters: object) -> Any:
    """The only value that a statement selects."""
    async with database.snapshot() as reader:
        return (await reader.execute(text(statement), parameters)).scalar_one()


@contextmanager
def noted(database: Database, words: str = "") -> Iterator[list[str]]:
    """The statements with these words that are executed meanwhile."""
    found: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if words in statement:
            found.append(statement)

    engine = database._engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something to become true; fail when it does not."""
    async with asyncio.timeout(PATIENCE_S):
        while not await true():
            await asyncio.sleep(0.02)
