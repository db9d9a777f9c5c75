"""SQL for commands to runs that another process executes."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Text, and_, case, cast, delete, func, select, update
from sqlalchemy.dialects import postgresql

from app.db import Reader, Transaction
from app.ids import AccountId, RunId, RunKey
from app.runs.commands.records import PendingCommands, StoredCommand
from app.runs.tables import run_commands, runs

_commands = run_commands.c


async def pending_commands(tx: Transaction, run: RunKey) -> PendingCommands:
    """Count and size of the run's commands without an answer."""
    kind = case((_commands.command["type"].as_string() == "stop", _commands.command["kind"].as_string()))
    size = func.octet_length(cast(_commands.command, Text))
    statement = select(_commands.id, size.label("size"), kind.label("stop_kind")).where(
        _commands.account_id == run.account_id, _commands.run_id == run.run_id, _commands.answer.is_(None)
    )
    rows = (await tx.execute(statement)).all()
    stops = {row.stop_kind: row.id for row in rows if row.stop_kind is not None}
    return PendingCommands(len(rows), sum(row.size for row in rows), stops)


async def insert_command(tx: Transaction, run: RunKey, command: dict[str, Any]) -> int:
    """Enqueue a command for the process that executes the run; returns its id."""
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
    """Commands for the runs of a process except `besides`, oldest first."""
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
    """Store the answer to a command and clear the command."""
    values = {"answer": answer, "command": {}}
    await tx.execute(update(run_commands).where(_commands.id == command_id).values(values))


async def delete_old_commands(tx: Transaction, *, older_than: timedelta) -> None:
    """Delete commands whose sender no longer waits."""
    await tx.execute(delete(run_commands).where(_commands.given_at < func.now() - older_than))


async def command_answer(reader: Reader, command_id: int) -> dict[str, Any] | None:
    """The answer to a command; None while there is none."""
    statement = select(_commands.answer).where(_commands.id == command_id)
    answer: dict[str, Any] | None = (await reader.execute(statement)).scalar_one_or_none()
    return answer
