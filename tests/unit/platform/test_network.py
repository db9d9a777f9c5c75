"""The way to other machines, as settings give it."""

from pathlib import Path
from typing import Any

import pytest

from app.doctor.report import Check, without_secrets
from app.platform.network import Proxy
from app.platform.settings import Settings, SettingsError, withdraw_secrets
from tests.authority import Authority

PASSWORD = "p@ss:Word-nobody-may-see"
URL = "http://us%20er:p%40ss%3AWord-nobody-may-see@proxy.internal:3128"


def load(**values: Any) -> Settings:
    return Settings.load(_env_file=None, **values)


def refusal(**values: Any) -> str:
    """What the start says; the secret is not in it."""
    with pytest.raises(SettingsError) as refused:
        load(**values)
    text = str(refused.value)
    assert "nobody-may-see" not in text
    return text.removeprefix("The settings are invalid:\n  ")


def test_a_proxy_has_an_address_and_credentials_that_are_not_shown() -> None:
    settings = load(RUNTALLY_HTTPS_PROXY=URL)

    assert settings.network.proxy == Proxy("http", "proxy.internal:3128", ("us er", PASSWORD))
    assert "nobody-may-see" not in f"{settings!r} {settings.network!r}"


def test_its_url_is_withdrawn_from_children_and_hidden_in_texts() -> None:
    environ = {"RUNTALLY_HTTPS_PROXY": URL}
    withdraw_secrets(environ)
    (check,) = without_secrets([Check("a", "error", PASSWORD)], load(RUNTALLY_HTTPS_PROXY=URL))

    assert environ == {}
    assert PASSWORD not in check.detail


@pytest.mark.parametrize(
    "url",
    [
        *(
            "proxy.internal:3128",
            "http://proxy.internal",
            "http://:3128",
            "socks5://proxy:1080",
            "http://a:b@",
        ),
        *(
            "http://me:nobody-may-see@proxy:99999",
            "http://proxy:3128/path",
            "http://proxy:3128?a",
            "https://[::1",
        ),
        *("http://me:nobody may see@proxy\n:3128", "http://proxy:0"),
    ],
)
def test_what_is_no_proxy_is_refused_by_name(url: str) -> None:
    text = refusal(RUNTALLY_HTTPS_PROXY=url)

    assert text.startswith("RUNTALLY_HTTPS_PROXY: must be http:// or https://, a host and a port")


DIRECT = (
    *("127.0.0.1", "127.8.8.8", "[::1]", "::ffff:127.0.0.1", "localhost", "a.localhost"),
    *("tools.internal", "TOOLS.internal.", "x.corp", "10.9.8.7", "[fd00::1]", "192.0.2.7"),
)
PROXIED = (
    *("corp", "xcorp", "a.tools.internal", "11.0.0.1", "fe00::1", "api.anthropic.com", "10.example.org"),
)


def test_some_hosts_need_no_proxy() -> None:
    network = load(
        RUNTALLY_HTTPS_PROXY=URL, RUNTALLY_NO_PROXY="tools.internal, .Corp,10.0.0.0/8, fd00::/8, 192.0.2.7"
    ).network

    assert [host for host in (*DIRECT, *PROXIED) if network.proxy_for("https", host) is None] == [*DIRECT]
    assert network.proxy_for("http", "example.org") is None


@pytest.mark.parametrize("entry", ["*", "*.internal", "a:443", "https://a", "10.0.0.0/99", "a b", ".", "ü"])
def test_what_is_no_host_is_refused_by_name(entry: str) -> None:
    text = refusal(RUNTALLY_NO_PROXY=f"a.internal,{entry}")

    assert text.startswith("RUNTALLY_NO_PROXY: must be hosts (tools.internal), endings of hosts (.internal)")


def test_files_of_certificates_are_checked_at_the_start(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, other = authority.certificate("one"), authority.certificate("other")
    (tmp_path / "text").write_text("no certificate")
    missing, key = "/no/such/file", "RUNTALLY_CLIENT_KEY_FILE"
    found = [
        refusal(RUNTALLY_CA_FILE=missing),
        refusal(RUNTALLY_CA_FILE=str(tmp_path / "text")),
        refusal(RUNTALLY_CLIENT_CERT_FILE=one),
        refusal(RUNTALLY_CLIENT_KEY_FILE=one),
        refusal(RUNTALLY_CLIENT_CERT_FILE=one, RUNTALLY_CLIENT_KEY_FILE=other),
        refusal(RUNTALLY_CLIENT_CERT_FILE=one, RUNTALLY_CLIENT_KEY_FILE=missing),
    ]

    assert found == [
        "RUNTALLY_CA_FILE: cannot be read (No such file or directory); it must be a file, or system",
        "RUNTALLY_CA_FILE: must be a file of certificates in PEM form, or system",
        *[f"{key}: and RUNTALLY_CLIENT_CERT_FILE must be set together"] * 2,
        f"{key}: must be the key, in PEM form and without a passphrase, of RUNTALLY_CLIENT_CERT_FILE",
        f"{key}: or RUNTALLY_CLIENT_CERT_FILE cannot be read (No such file or directory)",
    ]
    good = load(RUNTALLY_CA_FILE="system", RUNTALLY_CLIENT_CERT_FILE=one, RUNTALLY_CLIENT_KEY_FILE=one)
    assert (good.network.certificate, good.provider_network.certificate) == (None, (one, one))
