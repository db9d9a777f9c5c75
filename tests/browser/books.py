"""An account with real runs of today and inserted receipts of earlier weeks."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.browser.site import ASSISTANT, Key, Site
from tests.e2e.stories import CLOCK, a_client, a_request
from tests.provider.usage_objects import Iteration, TokenCounts, UsageObject

UNKNOWN_MODEL = "claude-unheard-of-9"
OF_WEEKS = 240
"""Receipts of the weeks before."""

_OF_WEEKS = text(
    """
    INSERT INTO charge_receipts (
        id, source_system, source_reference, run_id, attempt, usage_unit_id, account_id, api_key_id,
        graph_id, executor_type, model, input_tokens, output_tokens, cache_read_tokens,
        cache_write_5m_tokens, cache_write_1h_tokens, web_search_requests, cost_usd, charged_credits,
        price_version, basis, output_estimated, origin, created_at, used_at, cache_savings_usd)
    SELECT gen_random_uuid(), 'anthropic_sdk', CAST(:account AS uuid) || '-' || n, 'old-run-' || n, 0,
           'msg_' || n, CAST(:account AS uuid),
           CASE WHEN n % 3 = 0 THEN CAST(:second AS uuid) ELSE CAST(:key AS uuid) END,
           (ARRAY['claude_agents:assistant', 'claude_agents:analyst'])[1 + n % 2], 'claude_sdk',
           (ARRAY['claude-sonnet-4-6', 'claude-opus-4-5', 'claude-haiku-4-5'])[1 + n / 24 % 3],
           1000, 100 + n, 20000, 500, 0, 0, (n % 17 + 1) * 0.01, (n % 17 + 1) * 100000,
           'test', CASE WHEN n % 60 = 1 THEN 'partial' ELSE 'final' END, n % 60 = 1,
           CASE WHEN n % 60 = 2 THEN 'hidden' ELSE 'assistant' END, moment, moment, 0.054
      FROM generate_series(1, :count) AS n
     CROSS JOIN LATERAL (
           SELECT date_trunc('day', now(), 'UTC') - interval '1 day' * (1 + n % 24) + interval '7 h'
               + interval '1 s' * n AS moment) AS used
    """
)
_DISAGREE = text("UPDATE runs SET meters = :meters, cost_comparison = :cost WHERE run_id = :run")
_METERS = '{"sdk": 2, "gateway": 3, "drift": 1}'
_COST = """{
    "measured_usd": "0.0117", "sdk_usd": "0.0201", "explained_usd": "-0.0099", "drift_usd": "0.0015",
    "notes": ["service tier batch"]
}"""
EVERYTHING = UsageObject(
    TokenCounts(input=300, output=20, cache_read=9_000, cache_write_5m=400),
    inference_geo="us",
    service_tier="batch",
    server_tools={"web_search_requests": 2},
    iterations=[Iteration("advisor_message", TokenCounts(5_000, 100), "claude-opus-5-5")],
)
"""A message whose price has every kind of line."""


@dataclass(frozen=True, slots=True)
class Books:
    """Whose they are, and the runs of today."""

    key: Key
    drifted: str
    unpriced: str


async def opened(site: Site) -> Books:
    """Keep an account's books: a budget, runs of today and receipts of weeks."""
    key = await site.key()
    services = site.world.services
    account = (await services.accounts.authenticate(key.secret)).account_id
    second, _ = await services.accounts.create_key(key.account, ["runs:write"], name="nightly")
    async with services.database.transaction() as tx:
        await tx.execute(
            _OF_WEEKS, {"account": account, "key": key.id, "second": second.id, "count": OF_WEEKS}
        )
    async with a_client(site.world.url, key.secret) as http:
        site.model.script = in_turn(
            Reply([Text("Let me look."), ToolUse(CLOCK, {"timezone": "Asia/Tokyo"})], usage=_usage(8000)),
            Reply(
                [Text("It is <b>late</b> in Tokyo.")],
                usage=EVERYTHING.started(),
                final_usage=EVERYTHING.ended(),
                headers={"anthropic-organization-id": "org-of-the-operator"},
            ),
            Reply([Text("Who am I?")], model=UNKNOWN_MODEL),
        )
        runs = [await _run(http, prompt) for prompt in ("What time is it in Tokyo?", "And who are you?")]
    async with services.database.transaction() as tx:
        await tx.execute(_DISAGREE, {"run": runs[0], "meters": _METERS, "cost": _COST})
    return Books(key, *runs)


def _usage(cached: int) -> dict[str, Any]:
    return {"input_tokens": 300, "output_tokens": 1, "cache_read_input_tokens": cached}


async def _run(http: Any, prompt: str) -> str:
    answer = await http.post("/v1/runs/wait", json=a_request(prompt, graphId=ASSISTANT))
    assert answer.json()["ok"], answer.text
    run_id: str = answer.json()["runId"]
    return run_id
