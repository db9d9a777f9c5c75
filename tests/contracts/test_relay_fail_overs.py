"""The event log over a cluster or Sentinels whose servers are lost, replaced and moved."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.crc import key_slot

from app.ids import RunKey
from app.streams.relay.nodes import hash_tags, part_of
from tests.contracts.event_logs import a_run, append_all, some_events, with_positions
from tests.contracts.processes import Reading, two_processes
from tests.redis_programs import SLOTS, Cluster, a_cluster, a_watched_master, until


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster(tmp_path / "cluster") as opened:
        yield opened


def tag_of(run: RunKey) -> str:
    tags = hash_tags()
    return tags[part_of(f"{run.account_id}:{run.run_id}", len(tags))]


def a_run_on(shard: int, *, shards: int = 3) -> RunKey:
    """A run whose events this shard carries."""
    runs = (a_run() for _ in range(10_000))
    return next(run for run in runs if key_slot(tag_of(run).encode()) * shards // SLOTS == shard)


async def test_a_lost_shard_delays_the_readers_of_its_runs_only(cluster: Cluster) -> None:
    events = some_events(30)
    lost, other = a_run_on(0), a_run_on(1)
    async with two_processes(cluster.url, timeout_s=1) as (here, there):
        readers = {run: Reading(there, run) for run in (lost, other)}
        for run, reader in readers.items():
            await append_all(here, run, events[:10])
            await reader.until(10)
        assert there.problem is None
        cluster.nodes[0].stop()
        for run in readers:
            await append_all(here, run, events[10:20])
        await readers[other].until(20)
        await until(lambda: there.problem is not None)
        assert len(readers[lost].received) == 10
        cluster.nodes[0].start()
        await readers[lost].until(20)
        await until(lambda: there.problem is None and here.problem is None)
        for run, reader in readers.items():
            await append_all(here, run, events[20:])
            assert await reader.end() == with_positions(events)


async def test_the_readers_of_a_run_follow_its_slot_to_another_node(cluster: Cluster) -> None:
    run, events = a_run_on(0), some_events(30)
    slot = key_slot(tag_of(run).encode())
    async with two_processes(cluster.url) as (here, there):
        reader = Reading(there, run)
        await append_all(here, run, events[:10])
        await reader.until(10)
        await cluster.move(slot, to=cluster.nodes[2])
        await append_all(here, run, events[10:20])
        await reader.until(20)
        # To a node that was not named, and back.
        await cluster.move(slot, to=cluster.nodes[0])
        await append_all(here, run, events[20:])
        assert await reader.end() == with_positions(events)


@pytest.mark.long
async def test_a_replica_in_the_place_of_a_frozen_primary_loses_no_event(tmp_path: Path) -> None:
    run, events = a_run_on(0), some_events(30)
    async with (
        a_cluster(tmp_path / "cluster", replicas=1) as cluster,
        two_processes(cluster.url, timeout_s=1) as (here, there),
    ):
        reader = Reading(there, run)
        await append_all(here, run, events[:10])
        await reader.until(10)
        with cluster.nodes[0].frozen():
            await append_all(here, run, events[10:20])
            await reader.until(20)
        await append_all(here, run, events[20:])
        assert await reader.end() == with_positions(events)


async def test_a_fail_over_by_sentinels_loses_no_event(tmp_path: Path) -> None:
    run, events = a_run(), some_events(40)
    async with (
        a_watched_master(tmp_path / "watched") as watched,
        two_processes(watched.url, timeout_s=1) as (here, there),
    ):
        reader = Reading(there, run)
        await append_all(here, run, events[:10])
        await reader.until(10)
        with watched.master.frozen():
            await append_all(here, run, events[10:20])
            await reader.until(20)
            assert not await watched.replica.follows()
        # It believes to be the master until the Sentinels notice it.
        await append_all(here, run, events[20:])
        assert await reader.end() == with_positions(events)
