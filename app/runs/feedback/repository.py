"""SQL of feedback, which is in the row of its run."""

from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import func, select, update

from app.ids import RunKey
from app.platform.db import Transaction
from app.runs.feedback.records import Feedback, Rating
from app.runs.tables import runs

_STORED = TypeAdapter(Feedback | None)


async def store_feedback(tx: Transaction, key: RunKey, rating: Rating, note: str | None) -> Feedback | None:
    """Replace the feedback of a run; None if there is no such run, or its contents were deleted."""
    now: datetime = (await tx.execute(select(func.now()))).scalar_one()
    feedback = Feedback(rating, note, now)
    statement = update(runs).where(
        runs.c.account_id == key.account_id,
        runs.c.run_id == key.run_id,
        # Evaluated again once the row is locked: what was erased meanwhile gets no note.
        runs.c.contents_deleted_at.is_(None),
    )
    values = {"feedback": _STORED.dump_python(feedback, mode="json")}
    found = await tx.execute(statement.values(values).returning(runs.c.run_id))
    return None if found.first() is None else feedback


def feedback_of(stored: dict[str, Any] | None) -> Feedback | None:
    return _STORED.validate_python(stored)
