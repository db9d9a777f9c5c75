"""What REDIS_URL may be, and how a cluster is divided."""

from collections import Counter

import pytest
from redis.asyncio.connection import SSLConnection
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from app.streams.relay.address import NotAnAddress, RelayAddress
from app.streams.relay.nodes import PARTS, hash_tags, part_of


@pytest.mark.parametrize(
    ("url", "shown", "service", "options"),
    [
        ("redis://h", "h:6379", None, {}),
        ("redis://:Secret%40@h:1/2", "h:1", None, {"password": "Secret@", "db": 2}),
        ("redis://u:Secret@a:1,b,[::1]:3", "a:1,b:6379,::1:3", None, {"username": "u", "password": "Secret"}),
        ("rediss://h", "h:6379", None, {"connection_class": SSLConnection}),
        ("redis+sentinel://:Secret@a:1,b:2/relay/3", "a:1,b:2", "relay", {"password": "Secret", "db": 3}),
        ("redis+sentinel://a/relay?sentinel_password=Secret", "a:6379", "relay", {}),
        ("unix:///run/relay?db=4", "/run/relay", None, {"db": 4}),
    ],
)
def test_a_url_names_servers_a_service_and_options(
    url: str, shown: str, service: str | None, options: dict[str, object]
) -> None:
    address = RelayAddress.parse(url)

    assert (str(address), address.service) == (shown, service)
    given = {name: value for name, value in address.options.items() if name not in {"host", "path"}}
    assert {name: value for name, value in given.items() if name in options} == options
    assert "sentinel_password" not in given
    assert "Secret" not in f"{address!r} {address}"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("redis://h:secret", "a port is a number"),
        ("redis+sentinel://h:26379", "the name of the service is missing"),
        ("unix://", "the path of the socket is missing"),
        ("redis://h?secret=1", "an option after the question mark is unknown"),
        ("rediss://h?ssl_ca_certs=/secret", "there is no file as ssl_ca_certs names it"),
    ],
)
def test_a_url_that_is_none_is_explained_without_quoting_it(url: str, problem: str) -> None:
    with pytest.raises(NotAnAddress, match=problem) as error:
        RelayAddress.parse(url)

    assert "secret" not in str(error.value)


def test_the_parts_of_a_cluster_lie_evenly_on_its_shards() -> None:
    tags = hash_tags()

    assert [part_of(tag, PARTS) for tag in tags] == list(range(PARTS))
    for shards in (1, 2, 3, 4, 6, 12):
        of_shard = Counter(key_slot(tag.encode()) * shards // REDIS_CLUSTER_HASH_SLOTS for tag in tags)
        assert set(of_shard.values()) == {PARTS // shards}
