"""SQL for sessions of Managed Agents."""

import operator
from collections.abc import Collection
from dataclasses import fields

from sqlalchemy import Integer, cast, exists, func, select, tuple_

from app.conversations.records import Conversation
from app.conversations.repository import conversations_where
from app.conversations.tables import sessions
from app.ids import AccountId
from app.platform.db import Reader, json_text
from app.platform.postgres.statements import is_one_of
from app.runs.conversations.repository import IS_OF_SESSION
from app.runs.managed.records import COMPARISONS, SessionFilter, SessionTurn
from app.runs.tables import run_waits, runs

_IS_MANAGED = sessions.c.managed.is_not(None)
_PLACE = tuple_(sessions.c.created_at, sessions.c.state_key)
_MESSAGES = cast(json_text(runs.c.meters, "gateway"), Integer)
_IS_ASKING = exists().where(
    run_waits.c.account_id == runs.c.account_id,
    run_waits.c.run_id == runs.c.run_id,
    run_waits.c.resolved_by.is_(None),
    run_waits.c.expires_at > func.now(),
)


async def chosen_sessions(
    reader: Reader, account_id: AccountId, chosen: SessionFilter, *, limit: int
) -> list[Conversation]:
    """The first of an account's sessions that are chosen, by the time they were created."""
    conditions = [_IS_MANAGED, sessions.c.account_id == account_id]
    if chosen.graph_id is not None:
        conditions.append(json_text(sessions.c.managed, "graphId") == chosen.graph_id)
    if chosen.deployment_id is not None:
        conditions.append(sessions.c.deployment_id == chosen.deployment_id)
    if not chosen.has_archived:
        conditions.append(json_text(sessions.c.managed, "archivedAt").is_(None))
    for comparison, moment in chosen.created:
        conditions.append(COMPARISONS[comparison](sessions.c.created_at, moment))
    if chosen.after is not None:
        follows = operator.gt if chosen.is_ascending else operator.lt
        conditions.append(follows(_PLACE, chosen.after))
    ways = [sessions.c.created_at, sessions.c.state_key]
    order = ways if chosen.is_ascending else [each.desc() for each in ways]
    return await conversations_where(reader, *conditions, order=order, limit=limit)


async def turns_in(reader: Reader, account_id: AccountId, state_keys: Collection[str]) -> list[SessionTurn]:
    known = {**runs.c, "is_asking": _IS_ASKING.label("is_asking"), "messages": _MESSAGES.label("messages")}
    columns = [known[each.name] for each in fields(SessionTurn)]
    statement = (
        select(*columns)
        .where(
            sessions.c.account_id == account_id, is_one_of(sessions.c.state_key, state_keys), IS_OF_SESSION
        )
        .order_by(runs.c.turn)
    )
    return [SessionTurn(**row) for row in (await reader.execute(statement)).mappings()]


async def numbers_of_turns(
    reader: Reader, keys: Collection[tuple[AccountId, str]]
) -> dict[tuple[AccountId, str], int]:
    """How many runs these sessions have been given; one that was deleted is absent."""
    is_one = tuple_(sessions.c.account_id, sessions.c.state_key).in_(list(keys))
    statement = select(sessions.c.account_id, sessions.c.state_key, sessions.c.turns)
    rows = await reader.execute(statement.where(_IS_MANAGED, is_one))
    return {(AccountId(row.account_id), row.state_key): row.turns for row in rows}
