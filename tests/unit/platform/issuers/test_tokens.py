"""The setting that names issuers of tokens: what is wrong is named, with its variable and its field."""

import json
from typing import Any

import pytest

from app.platform.settings import Settings, SettingsError

USUAL = {
    "issuer": "https://house.example.org",
    "audience": "runtally",
    "account": "acme",
    "scopes": ["runs:read"],
}
BY_CLAIM = {**USUAL, "account": None, "accountClaim": "org", "accounts": ["acme-*"]}


def load(*issuers: dict[str, Any]) -> Settings:
    return Settings.load(_env_file=None, RUNTALLY_JWT_ISSUERS=json.dumps(issuers))


def test_what_is_left_out_is_strict() -> None:
    (issuer,) = load(USUAL).jwt_issuers

    assert issuer.algorithms == ("RS256", "ES256", "EdDSA")
    assert issuer.discovery_url == "https://house.example.org/.well-known/openid-configuration"
    assert issuer.account_of("other") == "acme"
    assert Settings.load(_env_file=None).jwt_issuers == ()


def test_a_claim_reaches_the_accounts_that_are_named() -> None:
    (issuer,) = load(BY_CLAIM).jwt_issuers

    found = [issuer.account_of(claimed) for claimed in ("acme-1", "acme", "other", None, ["acme-1"])]
    assert found == ["acme-1", None, None, None, None]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"audience": None}, ".0.audience: must be a string"),
        ({"audience": ""}, ".0.audience: must have at least 1 character"),
        ({"jwks_url": "https://x/keys"}, ".0.jwks_url: is not known"),
        ({"jwksUrl": "x/keys"}, ".0.jwksUrl: must be an http or https URL"),
        ({"jwksUrl": "https://me@x/keys"}, ".0.jwksUrl: must be an http or https URL"),
        ({"algorithms": ["HS256"]}, ".0.algorithms.0: must be 'RS256'"),
        ({"algorithms": ["none"]}, ".0.algorithms.0: must be 'RS256'"),
        ({"algorithms": []}, ".0.algorithms: must have at least 1 item"),
        ({"scopes": ["admin"]}, ".0.scopes.0: must be 'runs:write'"),
        ({"scopes": []}, ".0.scopes: must have at least 1 item"),
        ({"account": None}, ".0: must have either account or accountClaim"),
        ({"accountClaim": "org"}, ".0: must have either account or accountClaim"),
        ({"account": None, "accountClaim": "org"}, ".0: must have accounts with accountClaim"),
        ({"accounts": ["*"]}, ".0: must have accounts with accountClaim"),
        ({"graphs": []}, ".0.graphs: must have at least 1 item"),
        ({"graphs": ["messages:[a]"]}, ".0.graphs.0: must be up to 200 letters"),
        ({"issuer": "house"}, ".0: must have jwksUrl, because its issuer is not a URL"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load({**USUAL, **fields})

    assert f"RUNTALLY_JWT_ISSUERS{problem}" in str(raised.value)


@pytest.mark.parametrize("text", ["hunter2", "[" * 100_000, '{"issuer": "hunter2"}', "[5]"])
def test_what_is_no_list_of_issuers_is_named(text: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.load(_env_file=None, RUNTALLY_JWT_ISSUERS=text)

    assert "RUNTALLY_JWT_ISSUERS" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_an_issuer_is_named_once() -> None:
    with pytest.raises(SettingsError, match="RUNTALLY_JWT_ISSUERS: must have each issuer once"):
        load(USUAL, BY_CLAIM)
