"""Keys with a limit of tokens start nothing while the last minute's messages have reached it."""

from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from app.auth.accounts import Accounts
from app.auth.giving import ExceedsOwnRights
from app.auth.records import KeyRecord
from app.billing.prices.price_list import Charge
from app.billing.receipts.records import NewReceipt, ReceiptBasis
from app.billing.receipts.repository import insert_receipts
from app.billing.token_rates.service import TokensUsedUp, require_tokens
from app.ids import ApiKeyId
from app.platform.audit.records import Actor
from app.platform.db import Database
from app.usage.records import TokenUsage
from tests.e2e.stories import ASSISTANT, World, a_client, a_request
from tests.factories import a_fact
from tests.integration.conftest import in_shared_world
from tests.integration.external_calls import call
from tests.integration.statements import execute
from tests.integration.test_http_keys import Made, new_key, ways_to_start

SCOPES = ["runs:write", "runs:read", "external:write"]
STARTING = (
    *("/v1/runs", "/v1/runs/stream", "/v1/runs/wait", "/v1/generate/text", "/v1/generate/object"),
    *(f"/v1/ag-ui/{ASSISTANT}", f"/v1/ai-sdk/{ASSISTANT}/chat"),
    *("/openai/v1/chat/completions", "/openai/v1/responses"),
)


async def use(
    database: Database,
    key: KeyRecord,
    tokens: int,
    *,
    age_s: float = 0,
    began_s: float = 0,
    basis: ReceiptBasis = "final",
) -> None:
    """A message of so many tokens, which was charged and began so long ago."""
    usage = TokenUsage(input_tokens=tokens - 5, output_tokens=2, cache_read_tokens=3)
    fact = a_fact(key, f"msg_{uuid4().hex}", f"run-{uuid4().hex}", usage=usage)
    receipt = NewReceipt.of(fact, Charge(Decimal(0), 0, price_version="test"), basis)
    async with database.transaction() as tx:
        await insert_receipts(tx, [receipt])
    await execute(database, "ALTER TABLE charge_receipts DISABLE TRIGGER USER")
    await execute(
        database,
        "UPDATE charge_receipts SET created_at = now() - make_interval(secs => :age),"
        " used_at = now() - make_interval(secs => :began) WHERE run_id = :run",
        age=age_s,
        began=age_s + began_s,
        run=fact.run.run_id,
    )


async def wait_of(database: Database, key: KeyRecord) -> int | None:
    """After how many seconds a key may start something again; None: now."""
    async with database.read() as reader:
        try:
            await require_tokens(reader, key.principal)
        except TokensUsedUp as refused:
            return refused.retry_after_s
    return None


async def a_key(database: Database, limit: int | None, account: str = "acme") -> KeyRecord:
    return (await Accounts(database).create_key(account, SCOPES, tokens_per_minute=limit))[0]


async def test_a_key_waits_until_enough_of_what_it_has_used_is_a_minute_old(database: Database) -> None:
    key = await a_key(database, 1000)

    await use(database, key, 999, age_s=50)
    assert await wait_of(database, key) is None
    await use(database, key, 1, age_s=30)
    # The older one has to be a minute old: then one token is left of the two.
    assert 8 <= (await wait_of(database, key) or 0) <= 10
    await use(database, key, 999, age_s=20)
    assert 28 <= (await wait_of(database, key) or 0) <= 30
    await use(database, key, 5000, age_s=10)
    assert 48 <= (await wait_of(database, key) or 0) <= 50


async def test_what_is_older_corrected_or_of_other_keys_does_not_count(database: Database) -> None:
    key, other, free = [await a_key(database, limit) for limit in (100, 100, None)]
    await use(database, key, 1000, age_s=61)
    await use(database, key, 1000, basis="adjustment")
    await use(database, free, 1000)
    assert [await wait_of(database, each) for each in (key, other, free)] == [None] * 3

    # A message that took longer than a minute.
    await use(database, key, 100, began_s=120)

    assert await wait_of(database, key) is not None
    assert [await wait_of(database, each) for each in (other, free)] == [None] * 2


async def test_keys_that_are_made_with_a_key_share_its_limit_and_a_rotated_one_keeps_it(
    database: Database,
) -> None:
    accounts, scopes = Accounts(database), ["runs:write", "keys:write"]
    parent, _ = await accounts.create_key("acme", scopes, tokens_per_minute=1000)
    by = Actor("http", parent.id, parent.account_id)
    with pytest.raises(ExceedsOwnRights, match="limits"):
        await accounts.give_key(parent.principal, "acme", scopes, by=by, tokens_per_minute=1001)
    child, _ = await accounts.give_key(parent.principal, "acme", ["runs:write"], by=by, tokens_per_minute=500)
    sibling, _ = await accounts.give_key(parent.principal, "acme", ["runs:write"], by=by)
    await use(database, child, 600)
    after_child = [await wait_of(database, each) is None for each in (parent, child, sibling)]
    await use(database, sibling, 400)

    assert after_child == [True, False, True]
    assert [await wait_of(database, each) is None for each in (parent, child, sibling)] == [False] * 3
    stored = await accounts.principal_of(child.id)
    assert [limit.tokens_per_minute for limit in stored.terms.limits] == [1000, 500]
    assert stored.terms.tokens_per_minute == 500


async def test_other_keys_are_stored_as_the_release_before_reads_them(database: Database) -> None:
    await Accounts(database).create_key("acme", SCOPES, requests_per_minute=5)

    async with database.read() as reader:
        (limits,) = (await reader.exec_driver_sql("SELECT limits FROM api_keys")).scalars()
    assert [set(limit) for limit in limits] == [{"of", "requests_per_minute", "concurrent_runs"}]


async def used_up(world: World, **body: Any) -> Made:
    """A key that has used all its tokens of this minute."""
    made = await new_key(world, scopes=SCOPES, limits={"tokensPerMinute": 100}, **body)
    keys = await world.services.accounts.list_keys()
    (key,) = [each for each in keys if each.id == ApiKeyId(UUID(made.id))]
    await use(world.services.database, key, 100)
    return made


def refusal(answer: httpx.Response) -> tuple[int, str | None]:
    error = answer.json().get("error", answer.json())
    return answer.status_code, error.get("code") or error.get("type")


@in_shared_world
async def test_every_way_to_start_a_run_is_refused_and_says_when(world: World) -> None:
    made = await used_up(world)
    async with a_client(world.url, made.secret) as http:
        schedule = uuid4().hex
        body = {"scheduleId": schedule, "cron": "0 0 1 1 *", "run": a_request()}
        (await http.post("/v1/schedules", json=body)).raise_for_status()
        answers = {name: await send(http) for name, send in ways_to_start(schedule).items()}
        external = await call(http)
        counted = await http.post(
            "/anthropic/v1/messages/count_tokens",
            json={"model": "claude-sonnet-5-5", "messages": [{"role": "user", "content": "hi"}]},
        )
        runs = (await http.get("/v1/runs")).json()["items"]

    assert {name: refusal(answers[name]) for name in STARTING} == dict.fromkeys(STARTING, (429, "rate_limit"))
    assert refusal(external) == (429, "rate_limit_error")
    waits = [int(each.headers["retry-after"]) for each in (*(answers[name] for name in STARTING), external)]
    assert all(1 <= wait <= 60 for wait in waits)
    assert counted.status_code == 200
    assert runs == []


@in_shared_world
async def test_a_request_that_joins_a_run_is_not_refused(world: World) -> None:
    made = await new_key(world, scopes=SCOPES, limits={"tokensPerMinute": 1})
    request = a_request(graphId="messages:assistant", runId=uuid4().hex)
    async with a_client(world.url, made.secret) as http:
        first = await http.post("/v1/runs/wait", json=request)
        joined = await http.post("/v1/runs/wait", json=request)

    assert (first.status_code, joined.status_code) == (200, 200), (first.text, joined.text)
    assert first.json()["content"] == joined.json()["content"]


@in_shared_world
@pytest.mark.parametrize("wrong", [0, -1, "9", 1_000_000_001])
async def test_a_limit_that_is_no_number_of_tokens_is_refused(world: World, wrong: Any) -> None:
    body = {"scopes": ["runs:read"], "limits": {"tokensPerMinute": wrong}}

    refused = await world.http.post("/v1/accounts/default/keys", json=body)

    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "limits.tokensPerMinute")
