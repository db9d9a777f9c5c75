"""SQL of the runs of clients' own agents."""

from sqlalchemy import delete, func, select

from app.ids import AccountId, RunKey
from app.platform.db import Transaction
from app.runs.tables import runs


async def count_running(tx: Transaction, account_id: AccountId) -> int:
    """How many runs of an account are being executed, sessions of clients' agents too."""
    statement = select(func.count()).where(runs.c.account_id == account_id, runs.c.status == "running")
    count: int = (await tx.execute(statement)).scalar_one()
    return count


async def delete_running(tx: Transaction, run: RunKey) -> bool:
    """Delete the row of a run that has not ended; False if it has."""
    statement = delete(runs).where(
        *(runs.c[name] == value for name, value in run._asdict().items()), runs.c.status == "running"
    )
    return (await tx.execute(statement)).rowcount > 0
