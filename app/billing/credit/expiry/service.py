"""CreditExpiry: enters into the ledger what is left of grants when they expire."""

from dataclasses import dataclass, replace
from datetime import datetime

from app.billing.credit.expiry import repository
from app.billing.credit.expiry.records import GrantRests
from app.billing.credit.records import CreditBalance
from app.billing.credit.repository import find_balance, lock_balance
from app.ids import AccountId
from app.platform.background import AFTER_START_S, forever
from app.platform.clock.clock import Clock
from app.platform.db import Database, Reader, Transaction

_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class CreditExpiry:
    """Several processes may do so at once: an account is locked, and a grant has one expiry at most."""

    database: Database
    clock: Clock

    async def watch(self) -> None:
        """Look for grants that have expired until cancelled."""
        await forever(self.sweep, _EVERY_S, name="expiry of credit", first_after_s=AFTER_START_S)

    async def sweep(self) -> None:
        now = self.clock.now()
        async with self.database.read() as reader:
            accounts = await repository.find_accounts_with_due(reader, now)
        for account_id in accounts:
            # Each in a transaction of its own: those that lock several accounts could deadlock.
            async with self.database.transaction() as tx:
                await expire_due(tx, account_id, now)


async def expire_due(tx: Transaction, account_id: AccountId, now: datetime) -> None:
    """Enter the expiries of an account that are due, before anything depends on its balance."""
    if not await repository.find_due(tx, account_id, now):
        return
    credit = await lock_balance(tx, account_id)
    balance = credit.balance
    for grant_id, rest in await _due_rests(tx, account_id, balance, now=now):
        balance -= rest
        await repository.add_expiry(tx, account_id, grant_id, -rest, balance=balance)


async def find_current_balance(reader: Reader, account_id: AccountId, now: datetime) -> CreditBalance:
    """The account's credit, without what has expired and is not entered yet."""
    credit = await find_balance(reader, account_id)
    expired = sum(rest for _, rest in await _due_rests(reader, account_id, credit.balance, now=now))
    return replace(credit, adjusted=credit.adjusted - expired)


async def _due_rests(
    reader: Reader, account_id: AccountId, balance: int, *, now: datetime
) -> list[tuple[int, int]]:
    """The grants that are due, and what was left of each when it expired."""
    if not (due := await repository.find_due(reader, account_id, now)):
        return []
    rests, found = GrantRests(await repository.find_credit_entries(reader, account_id)), []
    for grant_id, expires_at in due:
        # What began later is in the balance already, and is not paid by this grant.
        rests.move_to(balance + await repository.spent_since(reader, account_id, expires_at))
        rest = rests.end(grant_id)
        balance -= rest
        found.append((grant_id, rest))
    return found
