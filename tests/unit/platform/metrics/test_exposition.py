"""What a scrape gets, and how often it reads the database."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from app.errors import Unavailable
from app.platform.metrics.exposition import Exposition
from app.platform.metrics.families import Family, KnownNames, gauge, gauges
from app.platform.metrics.readings import Reading
from app.platform.metrics.receipts import StoredReceipt
from app.platform.metrics.registry import MetricsRegistry
from app.platform.metrics.server import ServerMetrics
from app.usage.records import TokenUsage
from tests.patience import PATIENCE_S
from tests.virtual_time import in_virtual_time


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """Our samples, by name and the values of the labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if sample.name.startswith("runtally_")
    }


def a_server(graphs: Iterable[str] = (), models: Iterable[str] = ()) -> ServerMetrics:
    return ServerMetrics.create(
        graphs=KnownNames(frozenset(graphs)), models=KnownNames(frozenset(models)), version="1", role="serve"
    )


@dataclass
class Source:
    """Something to read, which may fail or not answer."""

    answers: asyncio.Event = field(default_factory=asyncio.Event)
    reads: int = 0
    error: Exception | None = None

    async def read(self) -> int:
        self.reads += 1
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return self.reads


def a_reading(source: Source, *, timeout_s: float = 20, max_age_s: float = 0) -> Reading[int]:
    def describe(reads: int) -> list[Family]:
        return [gauge("reads", "Reads.", reads)]

    return Reading("part", source.read, describe, max_age_s=max_age_s, timeout_s=timeout_s)


async def test_a_hundred_scrapes_read_and_render_once() -> None:
    source, registry = Source(), MetricsRegistry()
    source.answers.set()
    rendered: list[Family] = []

    def render() -> list[Family]:
        rendered.append(gauge("rendered", "Once.", 1))
        return rendered

    registry.add(render)
    exposition = Exposition(registry, [a_reading(source)])

    answers = await asyncio.gather(*(exposition.text() for _ in range(100)))

    assert (len(set(answers)), len(rendered), source.reads) == (1, 1, 1)


async def test_a_value_is_read_again_only_when_it_is_old() -> None:
    source = Source()
    source.answers.set()
    fresh, lasting = a_reading(source), a_reading(source, max_age_s=600)

    for reading in (fresh, fresh, lasting, lasting, lasting):
        await reading.refresh()

    assert source.reads == 3


@in_virtual_time
async def test_a_part_that_does_not_answer_is_missing_until_it_does_and_read_once() -> None:
    source, registry = Source(), MetricsRegistry()
    part = a_reading(source, timeout_s=0.01)
    exposition = Exposition(registry, [part])

    with capture_logs() as logs:
        frozen = [await exposition._render() for _ in range(3)]
        source.answers.set()
        await asyncio.wait_for(part._task or asyncio.sleep(0), PATIENCE_S)
        after = await exposition._render()

    assert [samples(each) for each in frozen] == [{("runtally_metrics_available", "part"): 0}] * 3
    assert samples(after)["runtally_metrics_available", "part"] == 1
    assert samples(after)["runtally_reads",] == 2
    assert [line["event"] for line in logs] == ["metrics.part_failed", "metrics.part_restored"]


@in_virtual_time
async def test_a_reading_that_is_late_is_waited_for_once() -> None:
    loop, part = asyncio.get_running_loop(), a_reading(Source(), timeout_s=0.2)
    times = [loop.time()]

    for _ in range(2):
        await part.refresh()
        times.append(loop.time())

    assert times[1] - times[0] == pytest.approx(0.2)
    assert times[2] == times[1]
    await part.aclose()


@pytest.mark.parametrize("error", [Unavailable("away"), ValueError("unexpected")])
async def test_a_part_that_fails_is_missing_and_hides_no_other(error: Exception) -> None:
    broken, working = Source(), Source()
    for source in (broken, working):
        source.answers.set()
    other = Reading("other", working.read, lambda _: [gauge("other", "Other.", 1)], max_age_s=0)
    exposition = Exposition(MetricsRegistry(), [a_reading(broken), other])

    before = samples(await exposition._render())
    broken.error = error
    with capture_logs() as logs:
        found = samples(await exposition._render())

    assert before["runtally_reads",] == 1
    assert found == {
        ("runtally_metrics_available", "part"): 0,
        ("runtally_metrics_available", "other"): 1,
        ("runtally_other",): 1,
    }
    assert [(line["event"], line["part"], line["reason"]) for line in logs] == [
        ("metrics.part_failed", "part", str(error))
    ]


async def test_a_scrape_that_is_given_up_ends_no_reading() -> None:
    source = Source()
    part = a_reading(source)
    waiting = asyncio.create_task(part.refresh())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    source.answers.set()

    await part.refresh()

    assert (part.is_available, source.reads) == (True, 1)


async def test_closing_ends_what_is_being_read() -> None:
    source = Source()
    part = a_reading(source, timeout_s=0.01)
    exposition = Exposition(MetricsRegistry(), [part])
    await exposition._render()

    await exposition.aclose()

    assert part._task is None


def test_two_servers_of_a_process_share_nothing() -> None:
    first, second = a_server(), a_server()

    first.receipts.message_unpriced()

    name = ("runtally_unpriced_messages_total",)
    assert [samples(each.registry.render())[name] for each in (first, second)] == [1, 0]


def test_labels_are_known_names_whatever_arrives() -> None:
    server = a_server(models=["claude-sonnet-5-5"])
    hostile = 'x"} 1\nevil 9\n# HELP a\\n'

    for number in range(10_000):
        server.receipts.receipt_stored(a_receipt(f"claude-sonnet-5-5-{number}"))
        server.gateway.provider_responded(1000 + number, {}, model=hostile)
    server.receipts.receipt_stored(a_receipt("claude-sonnet-5-5"))
    text = server.registry.render()

    found = samples(text)
    assert found["runtally_receipts_total", "final", "other", "assistant"] == 10_000
    assert found["runtally_receipts_total", "final", "claude-sonnet-5-5", "assistant"] == 1
    assert found["runtally_provider_responses_total", "other"] == 10_000
    assert b"evil" not in text
    assert len(text) < 50_000


def test_values_of_labels_are_escaped() -> None:
    registry = MetricsRegistry()
    hostile = 'a"} 1\nruntally_planted 2\n\\'
    registry.add(lambda: [gauges("held", "Held.", labels=["reason"], samples=[([hostile], 1)])])

    assert samples(registry.render()) == {("runtally_held", hostile): 1}


def test_the_client_adds_no_times_of_creation() -> None:
    assert b"_created" not in a_server().registry.render()


def a_receipt(model: str) -> StoredReceipt:
    return StoredReceipt(
        model,
        "final",
        "assistant",
        usage=TokenUsage(input_tokens=3),
        charged_credits=5,
        cost_usd=Decimal("0.0000005"),
        lag_s=0.2,
    )
