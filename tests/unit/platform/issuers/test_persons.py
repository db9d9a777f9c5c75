"""The settings of the issuer at which persons sign in: what is wrong is named, and no secret is shown."""

import pytest

from app.platform.settings import Settings, SettingsError
from tests.oidc_provider import OidcProvider

USUAL = OidcProvider(url="https://id.example.org").settings()


def load(**changed: str) -> Settings:
    return Settings.load(
        _env_file=None, **{**USUAL, **{f"RUNTALLY_OIDC_{name}": changed[name] for name in changed}}
    )


def test_one_gives_roles_to_groups() -> None:
    provider = load(REDIRECT_URL="https://r.example/base/v1/browser-session/oidc/callback").oidc

    assert provider is not None
    assert (provider.host, provider.site) == ("id.example.org", "https://r.example/base")
    assert [provider.role_of(each) for each in (["x", "finance"], "staff", ["x"], None, {"staff": 1})] == [
        *("billing", "user", None, None, None)
    ]
    assert Settings.load(_env_file=None).oidc is None


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("ISSUER", "http://id.example.org", "_ISSUER: must be a URL with https"),
        ("ISSUER", "https://hunter2@id.example.org", "_ISSUER: must be a URL with https"),
        ("CLIENT_ID", "", "_ROLES: RUNTALLY_OIDC_ISSUER needs RUNTALLY_OIDC_CLIENT_ID"),
        ("CLIENT_SECRET", "", "_ROLES: RUNTALLY_OIDC_ISSUER needs RUNTALLY_OIDC_CLIENT_SECRET"),
        ("REDIRECT_URL", "http://r.example/v1/browser-session/oidc/callback", "_REDIRECT_URL: must be a URL"),
        ("REDIRECT_URL", "https://r.example/callback", "_REDIRECT_URL: must end with /v1/browser-session"),
        ("SCOPES", "profile", "_SCOPES: must have openid"),
        ("SESSION_MINUTES", "0", "_SESSION_MINUTES: must be greater than or equal to 5"),
        ("ACCOUNT", "", "_ROLES: needs either RUNTALLY_OIDC_ACCOUNT or RUNTALLY_OIDC_ACCOUNT_CLAIM"),
        ("ACCOUNT_CLAIM", "org", "_ROLES: needs either RUNTALLY_OIDC_ACCOUNT or"),
        ("ACCOUNTS", "acme", "_ROLES: needs RUNTALLY_OIDC_ACCOUNTS with RUNTALLY_OIDC_ACCOUNT_CLAIM"),
        ("ACCOUNTS", "a[b]", "_ACCOUNTS.0: must be up to 200 letters"),
        ("ROLES", "{}", "_ROLES: RUNTALLY_OIDC_ISSUER needs the roles of groups"),
        ("ROLES", "hunter2", "_ROLES: must be a JSON object"),
        ("ROLES", '{"staff": "hunter2"}', "_ROLES.staff: must be 'viewer'"),
    ],
)
def test_what_is_wrong_is_named(name: str, value: str, problem: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(**{name: value})

    assert f"RUNTALLY_OIDC{problem}" in str(raised.value)
    assert "hunter2" not in str(raised.value)
