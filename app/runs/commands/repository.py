"""The SQL of commands for runs that another process carries."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Text, and_, case, cast, delete, func, select, update
from sqlalchemy.dialects import postgresql

from app.db import Reader, Transaction
from app.ids import AccountId, RunId, RunKey
from app.runs.tables import run_commands, runs

_commands = run_commands.c


@dataclass(frozen=True, slots=True)
class StoredCommand:
    """A command nobody has answered yet."""

    id: int
    run: RunKey
    command: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PendingCommands:
    """What waits for the process that carries a run."""

    count: int
    size: int
    """In bytes."""
    stops: dict[str, int]
    """The ids of commands to stop, by their kind."""


async def pending_commands(tx: Transaction, run: RunKey) -> PendingCommands:
    """How many commands of a run nobody has answered yet."""
    kind = case((_commands.command["type"].as_string() == "stop", _commands.command["kind"].as_string()))
    statement = select(_commands.id, func.octet_length(cast(_commands.command, Text)), kind).where(
        _commands.account_id == run.account_id, _commands.run_id == run.run_id, _commands.answer.is_(None)
    )
    rows = (await tx.execute(statement)).all()
    stops = {kind: command_id for command_id, _, kind in rows if kind is not None}
    return PendingCommands(len(rows), sum(size for _, size, _ in rows), stops)


async def insert_command(tx: Transaction, run: RunKey, command: dict[str, Any]) -> int:
    """Leave a command for whoever carries the run; returns its id."""
    statement = (
        postgresql.insert(run_commands)
        .values(account_id=run.account_id, run_id=run.run_id, command=command)
        .returning(_commands.id)
    )
    command_id: int = (await tx.execute(statement)).scalar_one()
    return command_id


async def commands_for(
    reader: Reader, process_id: UUID, *, besides: Collection[int], limit: int
) -> list[StoredCommand]:
    """Commands for the runs of a process, in the order they were given; none of those it knows already."""
    run_of_command = and_(runs.c.account_id == _commands.account_id, runs.c.run_id == _commands.run_id)
    statement = (
        select(_commands.id, _commands.account_id, _commands.run_id, _commands.command)
        .join(runs, run_of_command)
        .where(
            runs.c.process_id == process_id, _commands.answer.is_(None), _commands.id.not_in(list(besides))
        )
        .order_by(_commands.id)
        .limit(limit)
    )
    return [
        StoredCommand(row.id, RunKey(AccountId(row.account_id), RunId(row.run_id)), row.command)
        for row in await reader.execute(statement)
    ]


async def answer_command(tx: Transaction, command_id: int, answer: dict[str, Any]) -> None:
    """Say what came of a command, which is not needed any more."""
    values = {"answer": answer, "command": {}}
    await tx.execute(update(run_commands).where(_commands.id == command_id).values(values))


async def delete_old_commands(tx: Transaction, *, older_than: timedelta) -> None:
    """Remove commands that nobody waits for any more."""
    await tx.execute(delete(run_commands).where(_commands.given_at < func.now() - older_than))


async def command_answer(reader: Reader, command_id: int) -> dict[str, Any] | None:
    """What came of a command; None while nobody has answered."""
    statement = select(_commands.answer).where(_commands.id == command_id)
    answer: dict[str, Any] | None = (await reader.execute(statement)).scalar_one_or_none()
    return answer
