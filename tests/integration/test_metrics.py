"""What Prometheus gets of a server: what is counted, and to whom it is shown; documents name nothing else."""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterator

import httpx
import pytest_asyncio
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text
from structlog.testing import capture_logs

from app.requests.principal import Scope
from app.simulator.script import ApiRequest, Reply, Text
from tests.architecture.tree import ROOT
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import KEY, World, WorldOf, a_client, a_request
from tests.integration.conftest import in_shared_world
from tests.patience import PATIENCE_S

pytestmark = in_shared_world

GRAPH = f"{MESSAGES}:assistant"
MODEL = "claude-sonnet-5-5"
HOSTILE_MODEL = "claude-unheard-of-20261123"
LIMITS = {
    "anthropic-ratelimit-requests-limit": "50",
    "anthropic-ratelimit-requests-remaining": "49",
    "anthropic-ratelimit-requests-reset": "2126-11-23T12:00:00Z",
}
ROW = re.compile(r"^\| `(runtally_\w+)` \| (gauge|counter|histogram) \|([^|]*)\|", re.MULTILINE)
NEVER_COMPARED = "runtally_reconciliation_compared_until_timestamp_seconds"
"""Absent here: nothing was compared."""
OF_SEVERAL_PROCESSES = "runtally_process_available"
"""Proved in test_neighbours.py."""


def answers(request: ApiRequest) -> Reply:
    """Like the provider; a hostile one names another model."""
    model = HOSTILE_MODEL if "hostile" in json.dumps(request.body["messages"]) else None
    return Reply([Text("Hello you.")], headers=LIMITS, model=model)


class Port:
    """A world with a metrics port."""

    def __init__(self, world: World, url: str) -> None:
        self.world = world
        self.url = url

    async def scrape(self) -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
            return (await client.get(self.url)).raise_for_status()

    async def families(self) -> dict[str, Metric]:
        """By name, as samples of counters have it."""
        found = text_string_to_metric_families((await self.scrape()).text)
        return {f"{each.name}_total" if each.type == "counter" else each.name: each for each in found}

    async def samples(self) -> dict[tuple[str, ...], float]:
        return {
            (sample.name.removeprefix("runtally_"), *sample.labels.values()): sample.value
            for family in (await self.families()).values()
            for sample in family.samples
        }

    async def until(self, name: tuple[str, ...], value: float) -> dict[tuple[str, ...], float]:
        """Scrape until this sample has this value."""
        async with asyncio.timeout(PATIENCE_S):
            while (found := await self.samples()).get(name) != value:
                await asyncio.sleep(0.05)
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def port(shared_world_of: WorldOf) -> Port:
    with capture_logs() as logs:
        world = await shared_world_of(answers, RUNTALLY_METRICS_PORT=0, DATABASE_POOL_SIZE=10)
    (listening,) = [line for line in logs if line["event"] == "metrics.listening"]
    return Port(world, listening["url"])


async def test_what_happens_is_counted_once_and_without_ids(port: Port) -> None:
    bodies = [a_request(prompt, graphId=GRAPH) for prompt in ("hello", "hostile")]
    runs = [(await port.world.http.post("/v1/runs/wait", json=body)).json() for body in bodies]

    found = await port.until(("receipts_total", "unpriced", "other", "assistant"), 1)

    receipts = [each for run in runs for each in await port.world.receipts(run["runId"])]
    assert [run["ok"] for run in runs] == [True, True]
    assert found["receipts_total", "final", MODEL, "assistant"] == 1
    assert found["charged_credits_total", MODEL] == sum(each["chargedCredits"] for each in receipts)
    assert found["cost_usd_total", MODEL] == sum(float(each["costUsd"]) for each in receipts)
    assert found["tokens_total", "output", "other"] == 20
    assert found["receipt_lag_seconds_count",] == 2
    assert 0 < found["receipt_lag_seconds_sum",] < PATIENCE_S
    assert found["unpriced_messages_total",] == 1
    assert found["runs_ended_total", "none", GRAPH, "succeeded"] == 2
    assert found["queue_wait_seconds_count",] == 2
    assert found["first_event_seconds_count", MESSAGES] == found["first_text_seconds_count", MESSAGES] == 2
    assert found["gateway_overhead_seconds_count",] == found["provider_responses_total", "200"] == 2
    assert found["gateway_overhead_seconds_sum",] < found["first_text_seconds_sum", MESSAGES]
    assert found["provider_ratelimit_remaining", "requests", MODEL] == 49
    assert found["journal_pending",] == found["receipts_oldest_pending_seconds",] == 0
    account = str(await port.world.account_id())
    scraped = (await port.scrape()).text
    ids = [account, KEY, HOSTILE_MODEL, "msg_", *(run["runId"] for run in runs)]
    assert [each for each in ids if each in scraped] == []


async def statuses(port: Port, *requests: tuple[str, str]) -> list[int]:
    origin = port.url.removesuffix("/metrics")
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
        return [(await client.request(method, origin + path)).status_code for method, path in requests]


async def test_the_port_serves_metrics_and_nothing_else(port: Port) -> None:
    paths = ["/", "/metrics/", "/metrics2", "/healthz", "/openapi.json", "/v1/runs", "/v1/metrics"]

    assert await statuses(port, *(("GET", path) for path in paths)) == [404] * len(paths)
    assert await statuses(port, ("POST", "/metrics"), ("DELETE", "/metrics")) == [405, 405]
    assert await statuses(port, ("GET", "/metrics"), ("HEAD", "/metrics")) == [200, 200]


async def test_the_api_shows_metrics_to_keys_that_may_read_them(port: Port) -> None:
    async def seen(scopes: list[Scope], path: str) -> int:
        _, key = await port.world.services.accounts.create_key("operations", scopes)
        async with a_client(port.world.url, key) as client:
            return (await client.get(path)).status_code

    shown = await port.world.http.get("/metrics")

    assert shown.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert [await seen(["metrics:read"], "/metrics"), await seen(["admin"], "/metrics")] == [200, 200]
    assert await seen(["runs:read", "runs:write", "receipts:read"], "/metrics") == 403
    assert await seen(["metrics:read"], "/v1/fleet") == 403
    assert await seen(["metrics:read"], "/v1/receipts") == 403
    async with a_client(port.world.url, "rt_" + "0" * 32) as stranger:
        assert (await stranger.get("/metrics")).status_code == 401
        assert (await stranger.get("/v1/metrics")).status_code == 404


async def test_a_database_that_does_not_answer_hides_only_what_is_read_from_it(port: Port) -> None:
    database = port.world.services.database
    async with database.transaction() as tx:
        # Every statement on this table waits, as all would for a database that stands still.
        await tx.execute(text("LOCK TABLE workers IN ACCESS EXCLUSIVE MODE"))
        found = await port.until(("metrics_available", "fleet"), 0)

    assert ("runs_ready",) not in found
    assert found["metrics_available", "webhooks"] == 1
    assert ("event_loop_lag_seconds_count",) in found
    again = await port.until(("metrics_available", "fleet"), 1)
    assert again["runs_ready",] == 0


def documented() -> dict[str, tuple[str, set[str]]]:
    """The type and the labels of each metric in the guide."""
    rows = ROW.findall((ROOT / "docs" / "operations" / "metrics.md").read_text("utf-8"))
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


async def test_the_guide_has_every_metric_with_its_type_and_labels(port: Port) -> None:
    scraped = await port.families()
    table = documented()
    labels: defaultdict[str, set[str]] = defaultdict(set)
    for name, family in scraped.items():
        for sample in family.samples:
            labels[name] |= set(sample.labels) - {"le"}

    ours = {name for name in scraped if name.startswith("runtally_")}
    assert {name: family.type for name, family in scraped.items() if name in ours} == {
        name: kind for name, (kind, _) in table.items() if name not in {NEVER_COMPARED, OF_SEVERAL_PROCESSES}
    }
    assert {name: found for name, found in labels.items() if name in ours and found != table[name][1]} == {}


def named_in(source: str) -> Iterator[str]:
    for name in re.findall(r"\b(?:runtally|process)_[a-z_]+[a-z]\b(?=[\s{\[)/*+-])", source):
        yield re.sub(r"_(bucket|sum|count)$", "", name)


async def test_dashboard_and_alerts_name_metrics_that_exist(port: Port) -> None:
    exist = {*(await port.families()), NEVER_COMPARED}
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "runtally.json").read_text("utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    alerts = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text("utf-8")

    shown = set(named_in("\n".join(f"{query} " for query in queries)))

    assert len(shown) > 30
    assert (shown | set(named_in(alerts))) - exist == set()
