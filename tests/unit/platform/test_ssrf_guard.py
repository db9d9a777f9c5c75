from collections.abc import Sequence

import httpx2
import pytest

from app.platform.ssrf_guard import AddressPolicy, AddressRefused, NameNotFound, UrlRefused

PUBLIC = ["93.184.215.14", "8.8.8.8", "2606:2800:21f:cb07::1", "::ffff:8.8.8.8", "64:ff9b::808:808"]
PRIVATE = [
    *("127.0.0.1", "127.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("100.64.0.1", "198.18.0.1", "192.0.0.8", "192.0.2.1", "203.0.113.7", "240.0.0.1", "255.255.255.255"),
    *("::1", "fc00::1", "fd12:3456::1", "2001:db8::1", "fec0::1", "::7f00:1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::a00:1"),
    *("2002:7f00:1::", "2002:808:808::", "2001:0:808:808::1"),
    *("3fff::1", "192.88.99.1", "192.31.196.1", "192.52.193.1", "192.175.48.1", "2620:4f:8000::1"),
    *("2001:20::1", "5f00::1", "100::1", "100:0:0:1::1", "::ffff:0:808:808", "::808:808"),
]
NEVER = [
    *("169.254.169.254", "169.254.1.1", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254"),
    *("64:ff9b::a9fe:a9fe", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16"),
    *("192.0.0.192", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "::ffff:0.0.0.0"),  # noqa: S104
]
HOOK = httpx2.URL("https://hooks.example/in")


def addresses_of(*found: str, allow_private: bool = False) -> AddressPolicy:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return found

    return AddressPolicy(allow_private=allow_private, resolver=resolve)


@pytest.mark.parametrize("address", PUBLIC)
async def test_public_addresses_are_allowed(address: str) -> None:
    assert await addresses_of(address).resolve(HOOK) == [address]


@pytest.mark.parametrize("address", PRIVATE)
async def test_private_addresses_are_allowed_if_the_operator_allows_them(address: str) -> None:
    with pytest.raises(AddressRefused):
        await addresses_of(address).resolve(HOOK)

    assert await addresses_of(address, allow_private=True).resolve(HOOK) == [address]


@pytest.mark.parametrize("address", NEVER)
async def test_metadata_and_multicast_addresses_are_always_refused(address: str) -> None:
    for allow_private in (False, True):
        with pytest.raises(AddressRefused):
            await addresses_of(address, allow_private=allow_private).resolve(HOOK)


async def test_one_private_address_refuses_the_host() -> None:
    with pytest.raises(AddressRefused):
        await addresses_of("8.8.8.8", "10.0.0.1").resolve(HOOK)


async def test_a_name_without_addresses_is_not_found() -> None:
    with pytest.raises(NameNotFound):
        await addresses_of().resolve(HOOK)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::127.0.0.1]", "2130706433"),
        *("0x7f.1", "127.1", "017700000001", "%31%32%37.0.0.1", "127.0.0.0x1", "1.2.3.0x", "[::1%25lo]"),
        *("localhost", "LOCALHOST", "localhost.", "localhost.localdomain", "a.localhost", "xn--.localhost."),
        *("printer.local", "metadata.google.internal", "nas.lan", "router.home.arpa", "localhost%2e", "a..b"),
    ],
)
async def test_every_way_to_write_loopback_is_loopback(host: str) -> None:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        raise AssertionError

    async with AddressPolicy(resolver=resolve) as addresses:
        with pytest.raises((AddressRefused, UrlRefused)):
            await addresses.resolve(addresses.check_url(f"https://{host}/"))


async def test_local_names_need_private_addresses_to_be_allowed() -> None:
    addresses = addresses_of("10.0.0.1", allow_private=True)

    assert await addresses.resolve(addresses.check_url("https://nas.lan/")) == ["10.0.0.1"]


@pytest.mark.parametrize(
    "host", ["hooks.example.", "xn--mnchen-3ya.example", "a_b.example", "4.example", "8.8.8.8"]
)
async def test_ordinary_names_and_addresses_are_accepted(host: str) -> None:
    addresses = addresses_of("8.8.8.8")

    assert await addresses.resolve(addresses.check_url(f"https://{host}:65535/")) == ["8.8.8.8"]


async def test_an_invalid_name_is_not_found() -> None:
    async with AddressPolicy() as addresses:
        with pytest.raises(NameNotFound):
            await addresses.resolve(addresses.check_url(f"https://{'a' * 64}.example/"))


@pytest.mark.parametrize(
    "url",
    [
        *("", "hooks.example", "/in", "https://", "https:///in", "http://hooks.example/"),
        *("ftp://hooks.example/", "file:///etc/passwd", "gopher://hooks.example/", "javascript:alert(1)"),
        *("https://user@hooks.example/", "https://user:word@hooks.example/", "https://hooks.example/#here"),
        *("https://hooks.example/a b", "https://hooks.example/\r\nX: y", "https://hooks.example:port/"),
        *("https://hooks.example/\N{SNOWMAN}", "https://hooks.example/" + "x" * 2000, "https://[::1/"),
        *("https://0177.0.0.1/", "https://hooks.example:99999/", "https://hooks.example:0/"),
        *("https://hooks.example:65536/", "https://hooks.example,other/", "https://hooks.example%00/"),
    ],
)
def test_other_urls_than_https_are_refused(url: str) -> None:
    with pytest.raises(UrlRefused):
        AddressPolicy().check_url(url)


def test_plain_http_needs_private_addresses_to_be_allowed() -> None:
    with pytest.raises(UrlRefused, match="https://"):
        AddressPolicy().check_url("http://hooks.example/in")

    assert AddressPolicy(allow_private=True).check_url("http://hooks.example/in").host == "hooks.example"
