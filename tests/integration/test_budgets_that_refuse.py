"""A hard budget that refuses calls is reported to webhooks also before it is reached."""

import asyncio

import pytest

from app.auth.records import KeyRecord
from app.billing.budgets.records import Amount
from app.billing.chain.sums.comparison import wrong_sums
from app.billing.credit.ledger import BudgetSpent
from app.platform.db import Database
from tests.integration.test_budgets import TOKENS, Account
from tests.integration.webhook_seam import payloads, register


@pytest.fixture
async def account(database: Database, key: KeyRecord) -> Account:
    """An account with a webhook that listens."""
    await register(database, key, events=["budget.reached"])
    return Account(database, key)


async def sent(account: Account) -> list[tuple[str, str | None]]:
    """The budgets, with their values, that webhooks are told of."""
    found = [each["data"] for each in await payloads(account.database)]
    return [(data["budget"], data["value"]) for data in found]


async def test_it_is_sent_once_in_a_window_for_the_value_that_needed_more(account: Account) -> None:
    await account.limit(id="hard", tokens=3 * TOKENS)
    await account.limit(id="soft", tokens=3 * TOKENS, mode="soft")
    await account.limit(id="teams", scope="tag", tokens=4 * TOKENS)
    tags = {"team": "search", "env": "test"}
    await account.spend(1, tags={"team": "search"})
    run = await account.run("run-1", tags='{"team": "search", "env": "test"}')
    told = []

    for tokens in (200, 201, 301, 301):
        await account.ledger.report_refusal(run, Amount(0, tokens))
        told.append(await sent(account))
    for _ in range(4):
        await account.spend(1, tags=tags)

    first, second = ("hard", None), ("teams", "team=search")
    assert told == [[], [first], [first, second], [first, second]]
    # What is reached afterwards is known already; the others are not.
    assert sorted(await sent(account), key=str) == [first, ("soft", None), ("teams", "env=test"), second]
    (hard, *_) = (each["data"] for each in await payloads(account.database))
    assert (hard["mode"], hard["tokens"], hard["spentTokens"]) == ("hard", 3 * TOKENS, TOKENS)
    assert await wrong_sums(account.database, account.key.account_id) == []


async def test_it_is_sent_where_nothing_was_spent_and_by_one_of_several_calls(account: Account) -> None:
    await account.limit(tokens=100)
    run = await account.run("run-1")

    await asyncio.gather(*(account.ledger.report_refusal(run, Amount(0, 101)) for _ in range(5)))

    (payload,) = await payloads(account.database)
    assert (payload["data"]["tokens"], payload["data"]["spentTokens"]) == (100, 0)
    assert await wrong_sums(account.database, account.key.account_id) == []


async def test_it_is_sent_again_in_the_next_window(account: Account) -> None:
    await account.limit(tokens=100, window="hour")
    run = await account.run("run-1")
    await account.ledger.report_refusal(run, Amount(0, 101))
    account.now = account.now.replace(hour=account.now.hour + 1)

    await account.ledger.report_refusal(run, Amount(0, 101))

    assert await sent(account) == [("limit", None)] * 2


async def test_what_is_held_for_other_runs_is_not_left(account: Account) -> None:
    await account.limit(tokens=100)
    assert await account.call(await account.run("other"), 1, 60)
    run = await account.run("run-1")

    for tokens in (40, 41):
        await account.ledger.report_refusal(run, Amount(0, tokens))

    assert await sent(account) == [("limit", None)]


async def test_what_is_used_up_refuses_before_what_is_only_held(account: Account) -> None:
    await account.limit(id="held", window="total", credits=100)
    await account.limit(id="used-up", scope="endUser", window="hour", credits=10)
    await account.spend(10, end_user="ann")
    assert await account.call(await account.run("other"), 60)
    run = await account.run("run-1", end_user="ann")

    with pytest.raises(BudgetSpent) as refused:
        await account.ledger.resize_reservation(run, Amount(50, 0))

    assert (refused.value.budget.id, refused.value.is_held) == ("used-up", False)
