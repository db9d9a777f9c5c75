"""Budgets: sets budgets of accounts, and shows what is spent of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.billing.budgets import repository
from app.billing.budgets.records import AccountBudget, BudgetUse
from app.errors import Conflict, Forbidden, NotFound
from app.ids import AccountId
from app.platform.audit.records import SERVER, Actor, Change
from app.platform.audit.repository import record_change
from app.platform.clock.clock import Clock
from app.platform.clock.time_zones import require_time_zone
from app.platform.db import Database, Transaction

MAX_BUDGETS = 50
"""Of an account: each call of a run looks at all of them."""


class BudgetNotFound(NotFound):
    """The account has no budget with this id."""

    code = "budget_not_found"


class TooManyBudgets(Conflict):
    """The account has as many budgets as it may have."""

    code = "too_many_budgets"


class BudgetOfOperator(Forbidden):
    """This budget was set by an operator; only a key with the scope admin may change it."""

    code = "budget_of_operator"


@dataclass(frozen=True, slots=True)
class Budgets:
    """Sets budgets of accounts; they are enforced by `CreditLedger`."""

    database: Database
    clock: Clock = field(default_factory=Clock)

    async def set_budget(
        self, account_id: AccountId, budget: AccountBudget, *, by: Actor = SERVER
    ) -> tuple[AccountBudget, BudgetUse]:
        """Set or replace a budget. What was spent in its current window counts.

        Raises `BudgetOfOperator` if an operator has set it and `budget` is not an operator's,
        `TooManyBudgets`, and `Invalid` for an unknown time zone.
        """
        require_time_zone(budget.time_zone)
        async with self.database.transaction() as tx:
            before = await _lock(tx, account_id, budget.id, is_operator=budget.is_operators)
            if before != budget:
                if before is None and len(await repository.find_budgets(tx, account_id)) >= MAX_BUDGETS:
                    raise TooManyBudgets(f"An account has at most {MAX_BUDGETS} budgets.")
                await repository.store_budget(tx, account_id, budget, self.clock.now())
                shown = None if before is None else before.shown
                change = Change(account_id, "budget.set", budget.id, shown, budget.shown)
                await record_change(tx, by, change)
            return budget, await repository.find_use(tx, account_id, budget.id, self.clock.now())

    async def delete(
        self, account_id: AccountId, budget_id: str, *, is_operator: bool, by: Actor = SERVER
    ) -> None:
        """Delete a budget; raises `BudgetNotFound`, and `BudgetOfOperator` unless an operator does it."""
        async with self.database.transaction() as tx:
            budget = await _lock(tx, account_id, budget_id, is_operator=is_operator)
            if budget is None:
                raise BudgetNotFound
            await repository.delete_budget(tx, account_id, budget_id)
            await record_change(tx, by, Change(account_id, "budget.deleted", budget_id, budget.shown))

    async def get(self, account_id: AccountId, budget_id: str) -> tuple[AccountBudget, BudgetUse]:
        """A budget and what is used of it; raises `BudgetNotFound`."""
        async with self.database.snapshot() as reader:
            budget = await repository.find_budget(reader, account_id, budget_id)
            if budget is None:
                raise BudgetNotFound
            return budget, await repository.find_use(reader, account_id, budget_id, self.clock.now())

    async def list_budgets(self, account_id: AccountId) -> Sequence[tuple[AccountBudget, BudgetUse]]:
        async with self.database.snapshot() as reader:
            found = await repository.find_budgets(reader, account_id)
            now = self.clock.now()
            return [(each, await repository.find_use(reader, account_id, each.id, now)) for each in found]


async def _lock(
    tx: Transaction, account_id: AccountId, budget_id: str, *, is_operator: bool
) -> AccountBudget | None:
    """Lock what budgets are counted under, and look up a budget that is to change."""
    await repository.lock_credit(tx, account_id)
    budget = await repository.find_budget(tx, account_id, budget_id)
    if budget is not None and budget.is_operators and not is_operator:
        raise BudgetOfOperator
    return budget
