"""A workload of several tenants: all that shows its costs shows what was sent, to the last digit."""

import asyncio
import csv
import io
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import asyncpg
import httpx
import pytest

from app.billing.chain.verification import verify
from app.billing.credit.records import month_of
from app.billing.readers.service import SqlReaders
from app.billing.statements.records import content_of, month_after, month_start
from app.billing.statements.service import SETTLED_AFTER, StatementMaker, Statements
from app.billing.statements.verification import wrong_statements
from app.platform.audit.records import SERVER
from app.platform.clock.clock import Clock
from tests.e2e.agents import named_by_caller
from tests.e2e.callers import ACCOUNTS, KEYS, Caller, Provider, caller_of
from tests.e2e.stories import PROVIDER_KEY, World, WorldOf, a_client, until
from tests.e2e.test_one_command_with_several_processes import a_command
from tests.e2e.the_bill import bill, wire
from tests.integration.test_http_budgets import client_of
from tests.patience import PATIENCE_S
from tests.receivers import Receiver, a_receiver

RUNS = 2000
CLAUDE_EVERY = 21
"""Of so many runs one has the CLI."""
AT_ONCE = 16
MICRO = 10_000_000
"""Credits per dollar."""

Receipt: TypeAlias = Mapping[str, Any]
GROUPS: dict[str, Callable[[Receipt], str]] = {
    "key": itemgetter("apiKeyId"),
    "model": itemgetter("model"),
    "graph": itemgetter("graphId"),
    "endUser": itemgetter("endUser"),
    "tag:team": lambda receipt: receipt["tags"]["team"],
}
REFUSED = {
    "a0": {"budget_reached"},
    "a1": {"budget_reached"},
    "a2": set[str](),
    "a3": {"budget_reached"},
    "a4": {"insufficient_credits"},
}
"""Which limits of a tenant are reached."""

READS = ("receipts:read", "runs:read", "runs:write", "budgets:write")
HARD: dict[str, Any] = {"window": "total", "mode": "hard"}


@dataclass(slots=True)
class Tenant:
    """An account with its keys, and what its receipts say."""

    name: str
    reader: httpx.AsyncClient
    senders: dict[str, httpx.AsyncClient]
    key_ids: dict[str, str]
    receiver: Receiver
    receipts: list[dict[str, Any]] = field(default_factory=list)
    refused: list[tuple[str, Caller]] = field(default_factory=list)
    """Codes of errors, and who got them."""

    @property
    def cost(self) -> Decimal:
        return sum((Decimal(each["costUsd"]) for each in self.receipts), Decimal(0))

    @property
    def credits(self) -> int:
        return credits_of(self.receipts)

    async def post(self, caller: Caller, graph: str) -> None:
        """Run to the end, or be refused."""
        body = {
            "graphId": graph,
            "messages": [{"role": "user", "content": caller.prompt}],
            "endUser": caller.user,
            "tags": {"team": caller.team},
        }
        response = await self.senders[caller.key].post("/v1/runs/wait", json=body)
        said = response.json()
        if response.status_code == 402 or said.get("error") in {"budget_reached", "insufficient_credits"}:
            self.refused.append((said.get("code") or said["error"], caller))
        else:
            assert (response.status_code, said["ok"]) == (200, True), said


def credits_of(receipts: Iterable[Receipt]) -> int:
    return sum(each["chargedCredits"] for each in receipts)


async def every_item(http: httpx.AsyncClient, path: str, **params: Any) -> list[dict[str, Any]]:
    """Of all pages."""
    found: list[dict[str, Any]] = []
    while True:
        page = (await http.get(path, params={"limit": 200, **params})).raise_for_status().json()
        found += page["items"]
        if page["nextCursor"] is None:
            return found
        params["cursor"] = page["nextCursor"]


async def table(http: httpx.AsyncClient, path: str, **params: Any) -> list[dict[str, str]]:
    """The lines of a CSV export."""
    response = await http.get(path, params={**params, "format": "csv"})
    return list(csv.DictReader(io.StringIO(response.raise_for_status().text)))


@asynccontextmanager
async def tenants_of(world: World) -> AsyncIterator[dict[str, Tenant]]:
    """The accounts, each with its keys, a webhook and a limit of another kind."""
    async with AsyncExitStack() as stack:
        found = {}
        for name in (f"a{number}" for number in range(ACCOUNTS)):
            senders, ids = {}, {}
            for key in (f"k{number}" for number in range(KEYS)):
                record, secret = await world.services.accounts.create_key(name, ["runs:write"], name=key)
                senders[key] = await stack.enter_async_context(a_client(world.url, secret))
                ids[key] = str(record.id)
            reader = await stack.enter_async_context(await client_of(world, name, *READS))
            receiver = await stack.enter_async_context(a_receiver(200))
            hook = {"url": receiver.url, "events": ["receipt.created", "budget.reached"]}
            (await reader.post("/v1/webhooks", json=hook)).raise_for_status()
            found[name] = Tenant(name, reader, senders, ids, receiver)
        yield found


async def limit(world: World, tenants: Mapping[str, Tenant]) -> None:
    """Limits of all scopes, which are reached before the end of the workload, and one that never is."""
    budgets = {
        "a0": {"scope": "endUser", "usd": "0.004", **HARD},
        "a1": {"scope": "tag", "match": "team=t1", "tokens": 60_000, **HARD},
        "a2": {"scope": "account", "usd": "0.1", **HARD, "mode": "soft"},
        "a3": {"scope": "key", "match": tenants["a3"].key_ids["k0"], "usd": "0.05", **HARD},
    }
    for name, budget in budgets.items():
        (await tenants[name].reader.put("/v1/budgets/cap", json=budget)).raise_for_status()
    for name, graph in (("a0", "messages:assistant"), ("a2", "claude_agents:assistant")):
        plenty = {"scope": "graph", "match": graph, "usd": "1000", **HARD}
        (await tenants[name].reader.put("/v1/budgets/plenty", json=plenty)).raise_for_status()
    account = await world.services.accounts.find_by_name("a4")
    await world.services.ledger.change_mode(account.id, "prepaid")
    await world.services.ledger.grant(account.id, MICRO // 5)


async def work(tenants: Mapping[str, Tenant]) -> None:
    """All runs, some at the same time."""
    numbers = iter(range(RUNS))

    async def post() -> None:
        for number in numbers:
            caller = caller_of(number)
            executor = "messages" if number % CLAUDE_EVERY else "claude_agents"
            await tenants[caller.account].post(caller, f"{executor}:assistant")

    await asyncio.gather(*(post() for _ in range(AT_ONCE)))


@pytest.mark.long
@pytest.mark.parametrize("processes", [0, 3])
async def test_everything_that_shows_costs_agrees_with_what_was_sent(
    world_of: WorldOf, database_url: str, redis_url: str, memory_path: Path, processes: int
) -> None:
    """The processes of a command, if there are any, are a fleet with the server of this process."""
    settings = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "ANTHROPIC_API_KEY": PROVIDER_KEY,
        "RUNTALLY_MARKUP": "1.17",
        "RUNTALLY_WEBHOOK_ALLOW_PRIVATE": "true",
        "RUNTALLY_MAX_CONCURRENT_RUNS": str(AT_ONCE),
    }
    provider = Provider()
    world = await world_of(named_by_caller(provider), **settings)
    async with AsyncExitStack() as stack:
        if processes:
            opening = a_command(memory_path, world.simulator, processes, **settings)
            command = await stack.enter_async_context(opening)
            world = replace(world, url=str(command.http.base_url))
        tenants = await stack.enter_async_context(tenants_of(world))
        await limit(world, tenants)
        await work(tenants)
        for tenant in tenants.values():
            tenant.receipts = await every_item(tenant.reader, "/v1/receipts")
        the_receipts_are_what_was_sent(world, provider, tenants)
        for tenant in tenants.values():
            await the_api_agrees(tenant)
            await webhooks_agree(tenant)
            await budgets_agree(tenant)
        await operators_agree(world, tenants)
        await sql_agrees(world, database_url, tenants)
        await statements_agree(world, tenants)

    assert (await verify(world.services.database, {})).findings == ()
    assert await wrong_statements(world.services.database, {}) == []


def the_receipts_are_what_was_sent(world: World, provider: Provider, tenants: Mapping[str, Tenant]) -> None:
    every = [receipt for tenant in tenants.values() for receipt in tenant.receipts]
    assert bill(every) == wire(world.simulator.sent)
    for tenant in tenants.values():
        for receipt in tenant.receipts:
            caller = provider.asked_by[receipt["usageUnitId"]]
            said = (tenant.name, receipt["apiKeyId"], receipt["endUser"], receipt["tags"])
            assert said == (caller.account, tenant.key_ids[caller.key], caller.user, {"team": caller.team})
    assert {receipt["executorType"] for receipt in every} == {"claude_sdk", "messages_api"}
    assert len(every) > RUNS


async def the_api_agrees(tenant: Tenant) -> None:
    """CSV, usage in each way of grouping, FOCUS, ledger and balance."""
    lines = await table(tenant.reader, "/v1/receipts")
    assert {line["id"]: line["costUsd"] for line in lines} == {
        receipt["id"]: receipt["costUsd"] for receipt in tenant.receipts
    }
    for group_by, named in GROUPS.items():
        query: dict[str, str | int] = {"groupBy": group_by, "top": 50}
        used = (await tenant.reader.get("/v1/usage", params=query)).raise_for_status().json()
        shown = {each["group"]: each["chargedCredits"] for each in used["items"]}
        expected = Counter[str]()
        for receipt in tenant.receipts:
            expected[named(receipt)] += receipt["chargedCredits"]
        assert {group: credits_ for group, credits_ in shown.items() if credits_} == expected, group_by
        assert Decimal(used["total"]["costUsd"]) == tenant.cost
        assert used["total"]["receipts"] == len(tenant.receipts)
    now = datetime.now(UTC)
    period = {"from": (now - timedelta(days=2)).isoformat(), "to": (now + timedelta(days=2)).isoformat()}
    focus = await table(tenant.reader, "/v1/exports/focus", **period)
    assert sum(Decimal(line["ListCost"]) for line in focus) == tenant.cost
    assert sum(Decimal(line["BilledCost"]) for line in focus) * MICRO == tenant.credits
    ledger = await table(tenant.reader, "/v1/ledger")
    assert -sum(int(line["credits"]) for line in ledger if line["kind"] == "debit") == tenant.credits
    assert (await tenant.reader.get("/v1/balance")).json()["spent"] == tenant.credits


async def budgets_agree(tenant: Tenant) -> None:
    """A budget has counted the receipts of its scope, and what has reached it is reported once."""
    budgets = {each["id"]: each for each in (await tenant.reader.get("/v1/budgets")).json()["items"]}
    assert {code for code, _ in tenant.refused} == REFUSED[tenant.name]
    if "plenty" in budgets:
        graph = budgets["plenty"]["match"]
        of_graph = [receipt for receipt in tenant.receipts if receipt["graphId"] == graph]
        assert Decimal(budgets["plenty"]["spentUsd"]) * MICRO == credits_of(of_graph)
    if (cap := budgets.get("cap")) is None:
        return
    scope = cap["scope"]
    by_value: dict[str | None, list[Receipt]] = defaultdict(list)
    for receipt in tenant.receipts:
        value = limited(scope, receipt["apiKeyId"], receipt["endUser"], receipt["tags"]["team"])
        if cap["match"] in {None, value}:
            by_value[value].append(receipt)
    assert Decimal(cap["spentUsd"]) * MICRO == credits_of(by_value[cap["value"]])
    assert cap["spentTokens"] == sum(map(tokens, by_value[cap["value"]]))
    reached = {value for value, receipts in by_value.items() if has_reached(cap, receipts)}
    # A call is refused before if its prompt alone has more tokens, or costs more ($0.001), than is left.
    assert reached or cap["tokens"] is not None or Decimal(cap["remainingUsd"]) < Decimal("0.001")
    await until(lambda: len(events(tenant, "budget.reached")) >= len(reached))
    reported = Counter(each["value"] for each in events(tenant, "budget.reached"))
    # Also those that lacked what a call needed.
    keys = tenant.key_ids
    refused = {limited(scope, keys[each.key], each.user, each.team) for _, each in tenant.refused}
    assert reached <= set(reported) <= reached | refused
    assert set(reported.values()) == {1}


def limited(scope: str, key: str, user: str, team: str) -> str | None:
    """The value that a budget of this scope limits."""
    return {"account": None, "key": key, "endUser": user, "tag": f"team={team}"}[scope]


def has_reached(budget: Mapping[str, Any], receipts: Iterable[Receipt]) -> bool:
    if budget["tokens"] is not None:
        return sum(map(tokens, receipts)) >= int(budget["tokens"])
    return credits_of(receipts) >= Decimal(budget["usd"]) * MICRO


def tokens(receipt: Receipt) -> int:
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWrite5mTokens", "cacheWrite1hTokens")
    return sum(receipt[name] for name in names)


def events(tenant: Tenant, type_: str) -> list[dict[str, Any]]:
    return [post.event["data"] for post in tenant.receiver.posts if post.event["type"] == type_]


async def webhooks_agree(tenant: Tenant) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while len({each["id"] for each in events(tenant, "receipt.created")}) < len(tenant.receipts):
            await asyncio.sleep(0.1)
    told = {each["id"]: (each["costUsd"], each["endUser"]) for each in events(tenant, "receipt.created")}
    assert told == {each["id"]: (each["costUsd"], each["endUser"]) for each in tenant.receipts}


async def operators_agree(world: World, tenants: Mapping[str, Tenant]) -> None:
    async with await client_of(world, "ops", "admin", "receipts:read") as ops:
        response = await ops.get("/v1/usage", params={"groupBy": "account", "top": 50})
    names = {str((await world.services.accounts.find_by_name(name)).id): name for name in tenants}
    used = response.raise_for_status().json()["items"]
    shown = {names.get(each["group"], each["group"]): each for each in used}
    for name, tenant in tenants.items():
        assert Decimal(shown[name]["costUsd"]) == tenant.cost
        assert shown[name]["chargedCredits"] == tenant.credits


async def sql_agrees(world: World, url: str, tenants: Mapping[str, Tenant]) -> None:
    """The views, to a role that reads all accounts."""
    role = f"reader_{uuid4().hex}"
    password = await SqlReaders(world.services.database).set_role(role, None, by=SERVER)
    reader = await asyncpg.connect(url, user=role, password=password)
    for view in ("billing_receipts", "billing_usage_daily"):
        rows = await reader.fetch(
            f"SELECT account, sum(cost_usd) AS cost, sum(charged_credits) AS credits FROM {view} GROUP BY 1"  # noqa: S608
        )
        assert {row["account"]: (row["cost"], row["credits"]) for row in rows} == {
            name: (tenant.cost, tenant.credits) for name, tenant in tenants.items()
        }
    debits = await reader.fetch(
        "SELECT account, -sum(credits) AS credits FROM billing_ledger WHERE kind = 'debit' GROUP BY 1"
    )
    assert {row["account"]: row["credits"] for row in debits} == {
        name: tenant.credits for name, tenant in tenants.items()
    }
    await reader.close()


async def statements_agree(world: World, tenants: Mapping[str, Tenant]) -> None:
    """A statement of the month, made when it has ended."""
    database, month = world.services.database, month_of(datetime.now(UTC))
    due = month_start(month_after(month)) + SETTLED_AFTER
    await StatementMaker(database, world.services.chain, Clock(host=lambda: due)).make_due()
    for name, tenant in tenants.items():
        account = await world.services.accounts.find_by_name(name)
        made, _ = await Statements(database).list_statements(account.id, before=None, limit=2)
        said = [content_of(each) for each in made]
        late = sum(each.credits for statement in said for each in statement.late_charges)
        assert sum(statement.charges for statement in said) + late == -tenant.credits
        for name_ in ("by_model", "by_graph", "by_key"):
            parts = [part for statement in said for part in getattr(statement, name_)]
            assert sum(part.credits for part in parts) == -tenant.credits
            assert sum(part.messages for part in parts) == len(tenant.receipts)
