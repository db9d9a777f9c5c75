"""SQL for the calls of an account that wait."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select

from app.executors.waiting.port import WaitKind
from app.ids import AccountId
from app.platform.db import Reader, page_of
from app.platform.pagination import PageRequest
from app.runs.tables import run_waits, runs
from app.runs.waits.listing.records import CallFilter, OpenCall

_COLUMNS = {**run_waits.c, "graph_id": runs.c.graph_id, "state_key": runs.c.state_key}
_PLACE: ColumnElement[str] = run_waits.c.run_id + "/" + run_waits.c.call_id
_OF_RUN = (runs.c.account_id == run_waits.c.account_id) & (runs.c.run_id == run_waits.c.run_id)


async def newest_open(
    reader: Reader, account_id: AccountId, chosen: CallFilter, page: PageRequest
) -> list[OpenCall]:
    columns = [_COLUMNS[field.name] for field in fields(OpenCall)]
    statement = _open(select(*columns), account_id, chosen)
    if chosen.kind is not None:
        statement = statement.where(run_waits.c.kind == chosen.kind)
    found = await reader.execute(page_of(statement, page, at=run_waits.c.requested_at, id_=_PLACE))
    return [OpenCall(**row) for row in found.mappings()]


async def count_open(reader: Reader, account_id: AccountId, chosen: CallFilter) -> dict[WaitKind, int]:
    counted = select(run_waits.c.kind, func.count().label("calls")).group_by(run_waits.c.kind)
    if chosen.graph_id is chosen.state_key is chosen.end_user is None:
        # Each call has its run: to look that up takes longer than to count.
        statement = counted.where(*_is_open(account_id, chosen))
    else:
        statement = _open(counted, account_id, chosen)
    found = await reader.execute(statement)
    return {row.kind: row.calls for row in found}


def _open(columns: Select[Any], account_id: AccountId, chosen: CallFilter) -> Select[Any]:
    statement = columns.select_from(run_waits.join(runs, _OF_RUN)).where(*_is_open(account_id, chosen))
    wanted = {
        runs.c.graph_id: chosen.graph_id,
        runs.c.state_key: chosen.state_key,
        runs.c.end_user: chosen.end_user,
    }
    return statement.where(*(column == value for column, value in wanted.items() if value is not None))


def _is_open(account_id: AccountId, chosen: CallFilter) -> Iterator[ColumnElement[bool]]:
    yield run_waits.c.account_id == account_id
    yield run_waits.c.resolved_by.is_(None)
    # A call in a process that died stays unresolved until its run is taken over.
    yield run_waits.c.expires_at > func.now()
    if chosen.run_ids is not None:
        yield run_waits.c.run_id.in_(chosen.run_ids)
