"""SQL of the runs of clients' own agents."""

from sqlalchemy import func, select

from app.ids import AccountId
from app.platform.db import Transaction
from app.runs.tables import runs


async def count_running(tx: Transaction, account_id: AccountId) -> int:
    """How many runs of an account are being executed, sessions of clients' agents too."""
    statement = select(func.count()).where(runs.c.account_id == account_id, runs.c.status == "running")
    count: int = (await tx.execute(statement)).scalar_one()
    return count
