"""SQL for the runs that a forecast follows from."""

from decimal import Decimal

from sqlalchemy import Numeric, cast, extract, select, text

from app.ids import AccountId
from app.platform.db import Reader
from app.runs.tables import runs


async def newest_answers(
    reader: Reader, account_id: AccountId, graph_id: str, *, most: int
) -> dict[str, Decimal]:
    """How many seconds the newest successful runs of a graph took while they were not parked, by run id."""
    taken = extract("epoch", runs.c.ended_at - runs.c.started_at)
    seconds = cast(taken - runs.c.parked_s, Numeric(20, 3))
    statement = (
        select(runs.c.run_id, seconds.label("seconds"))
        # As text: the planner uses the partial index only for a value that it can see.
        .where(runs.c.account_id == account_id, runs.c.graph_id == graph_id, text("status = 'succeeded'"))
        .order_by(runs.c.ended_at.desc())
        .limit(most)
    )
    return {row.run_id: row.seconds for row in await reader.execute(statement)}
