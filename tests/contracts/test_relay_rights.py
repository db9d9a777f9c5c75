"""What the user of a relay needs, what is said where it lacks something, and TLS."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from app.errors import Unavailable
from app.platform.background import first_of
from app.platform.embedded.ports import free_port
from app.streams.relay.address import RelayNotUsable
from app.streams.relay.client import Relay
from tests.architecture.tree import ROOT
from tests.authority import Authority
from tests.contracts.event_logs import a_relayed_log, a_run, append_all, some_events, with_positions
from tests.contracts.processes import Reading, two_processes
from tests.redis_programs import HOST, a_cluster, a_server, running, until
from tests.redis_programs import PASSWORD as SERVERS

USER, PASSWORD = "runtally", "only-its-rights-01"
[RIGHTS] = re.findall(
    r"ACL SETUSER runtally on >PASSWORD (.*)$",
    (ROOT / "docs/operations/storage.md").read_text(),
    re.MULTILINE,
)
CLUSTER_ONLY = {"cluster|slots", "spublish", "ssubscribe", "sunsubscribe"}
COMMANDS = [right.removeprefix("+") for right in RIGHTS.split() if right.startswith("+")]


def setting(*rights: str) -> list[str]:
    """A command that gives the user these rights besides the documented ones."""
    return ["ACL", "SETUSER", USER, "reset", "on", f">{PASSWORD}", *RIGHTS.split(), *rights]


async def restrict(client: Redis, *rights: str) -> None:
    await client.execute_command(*setting(*rights))  # type: ignore[no-untyped-call]


def url_of(server: str) -> str:
    return re.sub("//.*@|//", f"//{USER}:{PASSWORD}@", server, count=1)


@pytest.fixture
async def admin(redis_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url) as client:
        await client.script_flush()
        yield client


async def test_a_user_with_the_documented_rights_is_enough(redis_url: str, admin: Redis) -> None:
    run, events = a_run(), some_events(20)
    await restrict(admin)
    async with two_processes(url_of(redis_url)) as (here, there):
        reader = Reading(there, run)
        await append_all(here, run, events)
        assert await reader.end() == with_positions(events)
        await here.delete(run)
        await here.ping()


async def test_they_are_enough_in_a_cluster(tmp_path: Path) -> None:
    run, events = a_run(), some_events(20)
    async with a_cluster(tmp_path / "cluster") as cluster:
        for node in cluster.nodes:
            await node.call(*setting())
        async with two_processes(url_of(cluster.url)) as (here, there):
            reader = Reading(there, run)
            await append_all(here, run, events)
            assert await reader.end() == with_positions(events)


@pytest.mark.parametrize("command", [each for each in COMMANDS if each not in CLUSTER_ONLY])
async def test_each_of_them_is_needed(redis_url: str, admin: Redis, command: str) -> None:
    await restrict(admin, f"-{command}")
    with pytest.raises(RelayNotUsable, match=rf"^REDIS_URL \([\d.:]+\): it refuses {command.upper()}; docs/"):
        await Relay.open(url_of(redis_url), timeout_s=1, check_s=0.1)


@pytest.mark.parametrize(("rights", "what"), [("resetkeys", "~runtally"), ("resetchannels", "&runtally")])
async def test_its_names_are_needed(redis_url: str, admin: Redis, rights: str, what: str) -> None:
    await restrict(admin, rights)
    with pytest.raises(RelayNotUsable, match=f"may not use .* add {what}"):
        await Relay.open(url_of(redis_url), timeout_s=1, check_s=0.1)


@pytest.mark.parametrize(
    ("rights", "problem"),
    [
        ("-publish", "it refuses PUBLISH"),
        ("-subscribe", "it refuses SUBSCRIBE"),
        ("-evalsha", "it refuses EVALSHA"),
        ("resetchannels", "may not use the channels"),
    ],
)
async def test_a_right_that_is_taken_away_is_noticed_until_it_is_given_back(
    redis_url: str, admin: Redis, rights: str, problem: str
) -> None:
    await restrict(admin)
    async with a_relayed_log(url_of(redis_url)) as log:
        await log.ping()
        await restrict(admin, rights)
        await admin.client_kill_filter(_type="pubsub", skipme=True)
        await until(lambda: problem in (log.problem or ""))
        with pytest.raises(Unavailable):
            await log.ping()
        await restrict(admin)
        await until(lambda: log.problem is None)
        await log.ping()


async def test_what_answers_and_cannot_be_a_relay_is_explained(tmp_path: Path) -> None:
    full = a_server(tmp_path / "full", "--maxmemory", "100kb")
    master = a_server(tmp_path / "master")
    replica = a_server(tmp_path / "replica", "--replicaof", f"{HOST} {master.port}")
    hosts = f"{HOST}:{master.port},{HOST}:{replica.port}"
    expected = {
        full.url: "its memory is full",
        replica.url: "it is a replica; name the master",
        f"redis://:{SERVERS}@{hosts}": "several hosts are named and it is no cluster",
        f"redis+sentinel://:{SERVERS}@{hosts}/relay?sentinel_password={SERVERS}": "it refuses SENTINEL",
    }
    async with running(full, master, replica):
        for url, problem in expected.items():
            with pytest.raises(RelayNotUsable, match=problem):
                await Relay.open(url)


async def test_a_relay_that_stands_still_is_noticed_until_it_goes_on(tmp_path: Path) -> None:
    server = a_server(tmp_path / "server")
    async with running(server), a_relayed_log(server.url, timeout_s=0.5) as log:
        with server.frozen():
            await until(lambda: "does not answer in time" in (log.problem or ""))
        await until(lambda: log.problem is None)
        await log.ping()


@asynccontextmanager
async def a_spreader(ports: Sequence[int]) -> AsyncIterator[int]:
    """Forwards each connection to the next of these ports; exit when all connections are closed."""
    turns, connections = itertools.cycle(ports), set[asyncio.Task[None]]()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, next(turns))
        await first_of(_copy(reader, back), _copy(there, writer))
        for end in (writer, back):
            end.close()
            await end.wait_closed()

    server = await asyncio.start_server(
        lambda reader, writer: connections.add(asyncio.create_task(forward(reader, writer))), HOST, 0
    )
    async with server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*connections)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while sent := await reader.read(65_536):
        writer.write(sent)


async def test_connections_that_are_spread_over_servers_are_noticed(tmp_path: Path) -> None:
    """Each answers, and what is sent to one is received at the other."""
    servers = [a_server(tmp_path / name) for name in ("one", "two")]
    async with running(*servers), a_spreader([server.port for server in servers]) as port:
        with pytest.raises(RelayNotUsable, match="it delivers no messages; name the server itself"):
            await Relay.open(f"redis://:{SERVERS}@{HOST}:{port}", timeout_s=1, check_s=0.1)


async def test_a_certificate_of_a_private_authority_is_accepted_where_it_is_named(tmp_path: Path) -> None:
    run, events = a_run(), some_events(10)
    authority = Authority(tmp_path)
    pem = str(authority.certificate("localhost"))
    tls = (
        "--tls-cert-file",
        pem,
        "--tls-key-file",
        pem,
        "--tls-ca-cert-file",
        str(authority.file),
        "--tls-auth-clients",
        "no",
    )
    port = free_port()
    server = a_server(tmp_path / "server", "--tls-port", str(port), *tls)
    async with running(server):
        url = f"rediss://:{SERVERS}@localhost:{port}"
        with pytest.raises(RelayNotUsable, match="its certificate is not trusted"):
            await Relay.open(url)
        with pytest.raises(RelayNotUsable):
            await Relay.open(f"redis://localhost:{port}")
        relay = await Relay.open(url, ca_file=authority.file)
        await relay.aclose()
        async with two_processes(f"{url}?ssl_ca_certs={authority.file}") as (here, there):
            reader = Reading(there, run)
            await append_all(here, run, events)
            assert await reader.end() == with_positions(events)
