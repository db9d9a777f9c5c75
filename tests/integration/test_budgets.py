"""Budgets: what counts for them, when they begin again, and what they refuse."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.auth.accounts import Accounts
from app.auth.records import KeyRecord
from app.billing.budgets.records import Amount, BudgetUse
from app.billing.budgets.service import BudgetOfOperator, Budgets, TooManyBudgets
from app.billing.chain.sums.comparison import wrong_sums
from app.billing.credit.ledger import BudgetSpent, CreditLedger
from app.billing.prices.price_list import Charge, PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.errors import Invalid
from app.ids import RunId, RunKey
from app.platform.audit.records import SERVER
from app.platform.clock.clock import Clock
from app.platform.db import Database
from app.usage.records import Attribution, TokenUsage
from tests.factories import a_budget, a_fact, an_account, an_open_database
from tests.integration.statements import execute, scalar

NOON = datetime(2026, 11, 27, 12, 30, tzinfo=UTC)
TOKENS = 100
GRAPH, OTHER_GRAPH = "claude_agents:one", "claude_agents:two"


@dataclass(slots=True)
class Account:
    """An account, and runs of it at a moment."""

    database: Database
    key: KeyRecord
    now: datetime = NOON
    _messages: int = 0

    @property
    def budgets(self) -> Budgets:
        return Budgets(self.database, Clock(lambda: self.now))

    @property
    def ledger(self) -> CreditLedger:
        return CreditLedger(self.database, Clock(lambda: self.now))

    async def limit(self, **fields: Any) -> BudgetUse:
        budget = a_budget(**fields)
        return (await self.budgets.set_budget(self.key.account_id, budget))[1]

    async def use(self, budget_id: str = "limit") -> BudgetUse:
        return (await self.budgets.get(self.key.account_id, budget_id))[1]

    async def spend(
        self, credits_: int, *, at: datetime | None = None, graph: str = GRAPH, **who: Any
    ) -> None:
        self._messages += 1
        key = who.pop("key", self.key)
        fact = replace(
            a_fact(key, f"msg_{self._messages}"),
            attribution=Attribution(key.id, graph, None, **who),
            usage=TokenUsage(input_tokens=TOKENS),
            at=at or self.now,
        )
        priced = PriceList().charge(BilledUsage.of(fact), at=self.now)
        receipt = NewReceipt.of(fact, Charge(priced.cost_usd, credits_, priced.price_version), "final")
        async with self.database.transaction() as tx:
            await insert_receipts(tx, [receipt])

    async def run(self, name: str, *, graph: str = GRAPH, **labels: Any) -> RunKey:
        """A run of the account, as far as budgets look at it."""
        return await a_row(self.database, self.key, name, graph_id=graph, **labels)

    async def call(self, run: RunKey, credits_: int, tokens: int = 0, *, minimum: int | None = None) -> bool:
        """Whether a call that costs so much is admitted; if so, so much is held."""
        least = None if minimum is None else Amount(minimum, 0)
        try:
            await self.ledger.resize_reservation(run, Amount(credits_, tokens), minimum=least)
        except BudgetSpent:
            return False
        return True


async def a_row(database: Database, key: KeyRecord, name: str, **columns: Any) -> RunKey:
    values = {"graph_id": GRAPH, "end_user": None, "tags": None, **columns}
    async with database.transaction() as tx:
        await tx.execute(
            text(
                "INSERT INTO runs (account_id, run_id, api_key_id, graph_id, model, status, request, "
                "request_hash, end_user, tags, created_at) VALUES (:account, :run, :key, :graph_id, 'm', "
                "'running', '{}', '', :end_user, CAST(:tags AS jsonb), now())"
            ),
            {"account": key.account_id, "run": name, "key": key.id, **values},
        )
    return RunKey(key.account_id, RunId(name))


@pytest.fixture
def account(database: Database, key: KeyRecord) -> Account:
    return Account(database, key)


OF_ANOTHER: dict[str, dict[str, Any]] = {
    "key": {},
    "graph": {"graph": OTHER_GRAPH},
    "endUser": {"end_user": "bob"},
    "tag": {"tags": {"team": "sales"}},
}
OURS: dict[str, Any] = {"end_user": "ann", "tags": {"team": "search"}}


@pytest.mark.parametrize("limited", ["credits", "tokens"])
@pytest.mark.parametrize("scope", ["account", "key", "graph", "endUser", "tag"])
async def test_each_value_of_a_scope_has_the_limit_by_itself(
    account: Account, database: Database, scope: str, limited: str
) -> None:
    unit = 1 if limited == "credits" else TOKENS
    await account.limit(scope=scope, window="total", **{limited: 2 * unit})
    labels = {"end_user": "ann", "tags": '{"team": "search"}'}
    ours = await account.run("ours", **labels)
    if scope == "key":
        second, _ = await Accounts(database).create_key("acme", ["runs:write"])
        theirs = await a_row(database, second, "theirs")
        other: dict[str, Any] = {"key": second}
    else:
        columns: dict[str, dict[str, Any]] = {"graph": {"graph": OTHER_GRAPH}, "endUser": {"end_user": "bob"}}
        theirs = await account.run("theirs", **columns.get(scope, {"tags": '{"team": "sales"}'}))
        other = OF_ANOTHER.get(scope, {})

    await account.spend(1, **OURS)
    await account.spend(1, **{**OURS, **other} if scope != "account" else {})
    one = Amount(1, 0) if limited == "credits" else Amount(0, TOKENS)

    # Of two, one is spent of each; of the account both are.
    left = [await account.call(run, *one) for run in (ours, theirs)]
    assert left == ([False, False] if scope == "account" else [True, True])
    await account.spend(1, **OURS)
    assert not await account.call(ours, *one)
    assert await account.call(theirs, *one) == (scope != "account")
    used = await account.use()
    assert getattr(used.spent, limited) == (3 if scope == "account" else 2) * unit
    assert await wrong_sums(account.database, account.key.account_id) == []


@pytest.mark.parametrize(
    ("scope", "match"), [("graph", GRAPH), ("endUser", "ann"), ("tag", "team=search"), ("key", None)]
)
async def test_a_budget_of_one_value_limits_no_other(account: Account, scope: str, match: str | None) -> None:
    match = match or str(account.key.id)
    await account.limit(scope=scope, match=match, credits=0)
    ours = await account.run("ours", end_user="ann", tags='{"team": "search", "tier": "free"}')
    other = await a_row(
        account.database,
        await an_account(account.database, "other"),
        "theirs",
        graph_id=OTHER_GRAPH,
        end_user="bob",
        tags='{"team": "sales"}',
    )

    assert not await account.call(ours, 1)
    assert await account.call(other, 1)
    assert (await account.use()).value == match


async def test_a_key_counts_for_those_that_it_replaces_as_well(account: Account, database: Database) -> None:
    await account.limit(scope="key", match=str(account.key.id), window="total", credits=2)
    keys, hour = [account.key], timedelta(hours=1)
    for _ in range(2):
        async with database.transaction() as tx:
            new, _ = await Accounts(database).replace_key(tx, keys[-1].id, hour, caller=None, by=SERVER)
        keys.append(new)
    _, second, third = keys
    run = await a_row(database, third, "run-3")

    await account.spend(1, key=second)
    left = [await account.call(run, 2), await account.call(run, 1)]
    await account.spend(1, key=third)

    assert left == [False, True]
    assert not await account.call(await account.run("run-1"), 1)
    assert (await account.use()).spent.credits == 2
    for scope in ("account", "key"):
        assert (await account.limit(id=scope, scope=scope, window="total", credits=9)).spent.credits == 2
    assert (await account.limit(id="third", scope="key", match=str(third.id), credits=9)).spent.credits == 1
    assert await wrong_sums(database, account.key.account_id) == []


@pytest.mark.parametrize(
    ("window", "time_zone", "spent_at", "now", "resets_at"),
    [
        ("hour", "UTC", "2026-11-27T12:59:59Z", "2026-11-27T13:00:00Z", "2026-11-27T14:00:00Z"),
        ("hour", "Asia/Kathmandu", "2026-11-27T12:14:59Z", "2026-11-27T12:15:00Z", "2026-11-27T13:15:00Z"),
        ("day", "UTC", "2026-11-27T23:59:59Z", "2026-11-28T00:00:00Z", "2026-11-29T00:00:00Z"),
        ("day", "Asia/Tokyo", "2026-11-27T14:59:59Z", "2026-11-27T15:00:00Z", "2026-11-28T15:00:00Z"),
        ("month", "UTC", "2026-11-30T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("month", "America/New_York", "2026-12-01T04:59:59Z", "2026-12-01T05:00:00Z", "2027-01-01T05:00:00Z"),
        # Days of 23 and 25 hours.
        ("day", "Europe/Berlin", "2026-03-28T22:59:59Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
        ("day", "Europe/Berlin", "2026-10-24T21:59:59Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
        # The same hour of the clock, twice.
        ("hour", "Europe/Berlin", "2026-10-25T00:59:59Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"),
        # Midnight does not exist, or exists twice.
        ("day", "America/Havana", "2026-03-08T04:59:59Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"),
        ("day", "America/Havana", "2026-11-01T03:59:59Z", "2026-11-01T04:30:00Z", "2026-11-02T05:00:00Z"),
    ],
)
async def test_a_window_begins_where_its_time_zone_says(
    account: Account, window: str, time_zone: str, spent_at: str, now: str, resets_at: str
) -> None:
    account.now = datetime.fromisoformat(spent_at)
    await account.limit(window=window, time_zone=time_zone, credits=1)
    run = await account.run("run-1")
    await account.spend(1)
    before = await account.use()
    assert not await account.call(run, 1)

    account.now = datetime.fromisoformat(now)
    after = await account.use()

    assert before.resets_at is not None
    assert before.resets_at <= account.now
    assert (before.spent.credits, after.spent.credits) == (1, 0)
    assert after.resets_at == datetime.fromisoformat(resets_at)
    assert await account.call(run, 1)
    # What comes late counts when it was used.
    await account.spend(1, at=datetime.fromisoformat(spent_at))
    assert (await account.use()).spent.credits == 0


async def test_what_is_spent_in_total_never_begins_again(account: Account) -> None:
    await account.limit(window="total", credits=5)
    await account.spend(5, at=NOON - timedelta(days=4000))

    used = await account.use()

    assert (used.spent.credits, used.resets_at) == (5, None)
    assert not await account.call(await account.run("run-1"), 1)


@pytest.mark.parametrize("scope", ["account", "key", "graph", "endUser", "tag"])
async def test_what_was_spent_before_a_budget_was_set_counts(account: Account, scope: str) -> None:
    await account.spend(3, **OURS)
    await account.spend(100, at=NOON - timedelta(days=40), **OURS)

    used = await account.limit(scope=scope, credits=10)

    assert used.spent == Amount(3, TOKENS)


async def test_budgets_that_are_set_while_messages_are_charged_miss_none(
    account: Account, database_url: str
) -> None:
    async with an_open_database(database_url) as other:
        elsewhere = replace(account, database=other, _messages=1000)
        await asyncio.gather(
            *(account.spend(1, **OURS) for _ in range(15)),
            *(elsewhere.limit(id=f"b{n}", scope=scope, credits=100) for n, scope in enumerate(OF_ANOTHER)),
            *(account.spend(1, **OURS) for _ in range(15)),
        )

    assert {(await account.use(f"b{n}")).spent.credits for n in range(len(OF_ANOTHER))} == {30}


async def test_concurrent_runs_never_hold_more_than_a_budget(account: Account, database_url: str) -> None:
    """Twenty runs of two processes, and a budget for five calls. What is held is not used up."""
    await account.limit(scope="endUser", credits=50)
    runs = [await account.run(f"run-{number}", end_user="ann") for number in range(20)]

    async with an_open_database(database_url) as other:
        elsewhere = replace(account, database=other)
        admitted = await asyncio.gather(
            *((account, elsewhere)[number % 2].call(run, 10) for number, run in enumerate(runs))
        )

    assert sum(admitted) == 5
    refused = runs[admitted.index(False)]
    with pytest.raises(BudgetSpent) as by_holds:
        await account.ledger.resize_reservation(refused, Amount(10, 0))
    with pytest.raises(BudgetSpent) as by_what_is_asked:
        await account.ledger.resize_reservation(refused, Amount(51, 0))
    assert (by_holds.value.is_held, by_what_is_asked.value.is_held) == (True, False)
    assert (await account.use()).held.credits == 0
    await account.spend(1, end_user="ann")
    assert (await account.use()).held.credits == 50
    async with account.database.transaction() as tx:
        accepted = await account.ledger.reserve(tx, refused, 30)
    assert accepted is not None
    assert accepted.amount == Amount(1, 1)
    assert (await account.use()).held.credits == 51


async def test_a_run_holds_what_its_last_call_needs_until_it_ends(account: Account) -> None:
    await account.limit(credits=100)
    one, two = await account.run("one"), await account.run("two")

    assert [await account.call(one, wanted) for wanted in (30, 80, 101)] == [True, True, False]
    assert not await account.call(two, 30)
    # One message may pass a limit by its answer.
    assert await account.call(two, 60, minimum=20)
    async with account.database.transaction() as tx:
        await account.ledger.release(tx, one)
    assert await account.call(two, 100)
    assert (await account.use()).held.credits == 100


async def test_a_refusal_names_the_budget_that_resets_last(account: Account) -> None:
    for window in ("hour", "month", "day"):
        await account.limit(id=f"per-{window}", window=window, credits=0)
    run = await account.run("run-1")

    with pytest.raises(BudgetSpent) as refused:
        async with account.database.transaction() as tx:
            await account.ledger.reserve(tx, run, 1)

    assert (refused.value.status, refused.value.code) == (402, "budget_reached")
    assert refused.value.members == {"budget": "per-month", "resets_at": "2026-12-01T00:00:00Z"}
    assert refused.value.detail == "The budget per-month is used up until 2026-12-01T00:00:00Z."
    assert (await account.ledger.balance(account.key.account_id)).reserved == 0


async def test_a_soft_budget_refuses_nothing_and_is_reported(account: Account) -> None:
    await account.limit(mode="soft", credits=1)
    run = await account.run("run-1")
    await account.spend(1)

    async with account.database.transaction() as tx:
        reserved = await account.ledger.reserve(tx, run, 5)

    assert reserved is not None
    assert [budget.id for budget in reserved.reached] == ["limit"]
    assert await account.call(run, 10)


async def test_an_account_without_budgets_has_no_limit(account: Account) -> None:
    await account.limit(credits=0)
    other = await an_account(account.database, "other")
    run = RunKey(other.account_id, RunId("run-1"))

    assert await account.ledger.resize_reservation(run, Amount(10**9, 0)) is None
    await account.budgets.delete(account.key.account_id, "limit", is_operator=False)
    assert await account.ledger.resize_reservation(await account.run("mine"), Amount(1, 0)) is None


async def test_budgets_of_operators_are_changed_by_operators(account: Account) -> None:
    await account.limit(is_operators=True, credits=5)

    with pytest.raises(BudgetOfOperator):
        await account.limit(credits=500)
    with pytest.raises(BudgetOfOperator):
        await account.budgets.delete(account.key.account_id, "limit", is_operator=False)
    await account.limit(is_operators=True, credits=6)
    await account.budgets.delete(account.key.account_id, "limit", is_operator=True)


async def test_an_account_has_so_many_budgets_at_most(account: Account) -> None:
    for number in range(50):
        await account.limit(id=f"b{number}", credits=number)

    await account.limit(id="b49", credits=7)
    with pytest.raises(TooManyBudgets):
        await account.limit(id="one-more", credits=1)
    with pytest.raises(Invalid, match="IANA time zone"):
        await account.limit(id="b1", credits=1, time_zone="localtime")


async def test_what_was_spent_in_past_windows_is_not_kept_for_ever(account: Account) -> None:
    await account.limit(window="day", credits=10)
    for days in (0, 1, 100):
        await account.spend(1, at=NOON + timedelta(days=days))

    assert await scalar(account.database, "SELECT count(*) FROM budget_spending") == 1


async def test_a_changed_sum_is_found(account: Account) -> None:
    await account.limit(scope="endUser", window="total", credits=100)
    await account.spend(3, end_user="ann")
    assert await wrong_sums(account.database, account.key.account_id) == []

    await execute(account.database, "UPDATE budget_spending SET credits = 1")

    (found,) = await wrong_sums(account.database, account.key.account_id)
    assert "budget limit, ann: credits is recorded as 1 and recomputed as 3" in found
