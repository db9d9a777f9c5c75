"""Whom an issuer signs in, and what makes a sign-in invalid."""

import importlib
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import jwt
import pytest

from app.auth.accounts import Accounts
from app.auth.browser_sessions import BrowserSessions, OpenedSession, SessionEnded
from app.auth.oidc.attempt import LIFETIME, Attempt
from app.auth.oidc.code_exchange import CodeExchange
from app.auth.oidc.service import NoRole, PersonSignIn, SignInDenied, SignInExpired, SignInRefused
from app.auth.records import SignedInPerson
from app.auth.roles import ROLES
from app.auth.tokens.checks import SKEW_S, TokenExpired, TokenRefused
from app.auth.tokens.holders import KeyHolders
from app.auth.tokens.issuer_keys import FETCH_INTERVAL_S, IssuerKeys, IssuerUnavailable
from app.errors import Invalid, Unauthenticated
from app.platform.db import Database
from app.platform.settings import Settings
from app.requests.attribution import Attributed
from app.requests.principal import AccountSuspended
from tests.factories import not_none
from tests.integration.test_tokens import Clock, segment
from tests.oidc_provider import CLIENT, OidcProvider, a_provider
from tests.patience import PATIENCE_S
from tests.token_issuers import SigningKey


@dataclass(slots=True)
class Signing:
    """A server's part of the sign-in, with a browser and a clock for the keys of the issuer."""

    service: PersonSignIn
    browser: httpx.AsyncClient
    clock: Clock

    async def answer(self, attempt: Attempt) -> dict[str, str]:
        """What the browser comes back with."""
        response = await self.browser.get(await self.service.address(attempt))
        return dict(parse_qsl(urlsplit(response.headers["location"]).query))

    async def person(self, page: str = "/") -> OpenedSession:
        """Sign in."""
        attempt = Attempt.new(page)
        return await self.service.finish(await self.answer(attempt), attempt)


@asynccontextmanager
async def a_sign_in(
    database: Database, *keys: SigningKey, **settings: str | None
) -> AsyncIterator[tuple[Signing, OidcProvider]]:
    """At a provider, over the account `acme`."""
    accounts, clock = Accounts(database), Clock()
    await accounts.create_account("acme")
    async with (
        a_provider(*keys) as provider,
        IssuerKeys(clock=clock) as issuer_keys,
        CodeExchange() as exchange,
        httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as browser,
    ):
        configured = not_none(Settings.load(_env_file=None, **provider.settings(**settings)).oidc)
        holders, sessions = KeyHolders(accounts), BrowserSessions(database, accounts)
        service = PersonSignIn(configured, issuer_keys, exchange, holders, sessions)
        yield Signing(service, browser, clock), provider


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_person_has_the_scopes_of_their_role(database: Database, algorithm: str) -> None:
    async with a_sign_in(database, SigningKey.new("k", algorithm)) as (signing, provider):
        ann = await signing.person()
        provider.person = {"sub": "bob", "name": "\0", "groups": ["finance", "support"]}
        bob = await signing.person()
        found = [await signing.service.sessions.authenticate(each.token) for each in (ann, bob)]
        keys = await signing.service.holders.accounts.list_keys()

    assert (ann.session.person, ann.session.account) == (SignedInPerson("Ann", "ann", "user"), "acme")
    assert bob.session.person == SignedInPerson(None, "bob", "billing")
    assert [each.scopes for each in found] == [set(ROLES["user"]), set(ROLES["billing"])]
    assert [each.end_user for each in found] == ["ann", None]
    assert [each.labelled(Attributed()).end_user for each in found] == ["ann", "bob"]
    with pytest.raises(Invalid, match="is fixed to another value"):
        found[0].labelled(Attributed.of(end_user="bob"))
    assert [key.name for key in keys] == [f"{provider.url} (user)", f"{provider.url} (billing)"]


NO_ALGORITHM = segment(b'{"alg":"none","typ":"JWT","kid":"first"}')


def unsigned(_provider: OidcProvider, token: str) -> str:
    return f"{NO_ALGORITHM}.{token.split('.')[1]}."


def with_a_shared_secret(_provider: OidcProvider, token: str) -> str:
    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode(claims, "s" * 32, headers={"kid": "first"})


def signed_by_another(provider: OidcProvider, token: str) -> str:
    claims = jwt.decode(token, options={"verify_signature": False})
    return provider.token(key=SigningKey.new("first"), **claims)


NOW = time.time


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"make": unsigned}, "its alg is none"),
        ({"make": with_a_shared_secret}, "its alg is none"),
        ({"make": signed_by_another}, "its signature is not that of its key"),
        ({"make": lambda _, token: token[:-8] + "AAAAAAAA"}, "its signature is not that of its key"),
        ({"make": lambda *_: "x" * 70_000}, "it has more than 65536 characters"),
        ({"changed": {"iss": "https://other.example.org"}}, "its key, signature or claims are not valid"),
        ({"changed": {"aud": "other"}}, "its aud is not that of this server"),
        ({"changed": {"aud": [CLIENT, "other"]}}, "its azp is not this server"),
        ({"changed": {"azp": "other"}}, "its azp is not this server"),
        ({"changed": {"nonce": None}}, "its nonce is not that of this sign-in"),
        ({"changed": {"nonce": "x"}}, "its nonce is not that of this sign-in"),
        ({"changed": {"nonce": ["x"]}}, "its nonce is not that of this sign-in"),
        ({"changed": {"exp": None}}, "it must have exp, iss and aud"),
        ({"changed": {"iat": NOW() + 3600}}, "it is not valid yet"),
        ({"changed": {"sub": None}}, "its sub must be the end user"),
        ({"changed": {"sub": "~erased"}}, "its sub must be the end user"),
    ],
)
async def test_a_wrong_token_opens_nothing(database: Database, broken: dict[str, Any], why: str) -> None:
    async with a_sign_in(database) as (signing, provider):
        for name, value in broken.items():
            setattr(provider, name, value)
        with pytest.raises(TokenRefused, match=why):
            await signing.person()


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ({"state": None}, SignInExpired),
        ({"state": "x"}, SignInExpired),
        ({"state": "\ud800"}, SignInExpired),
        ({"iss": "https://other.example.org"}, SignInRefused),
        ({"error": "access_denied"}, SignInDenied),
        ({"code": None}, SignInRefused),
        ({"code": "x" * 5000}, SignInRefused),
        ({"code": "guessed"}, SignInRefused),
    ],
)
async def test_a_wrong_answer_opens_nothing(
    database: Database, answers: dict[str, str | None], error: type[Exception]
) -> None:
    async with a_sign_in(database) as (signing, provider):
        attempt = Attempt.new("/")
        changed = {**await signing.answer(attempt), **answers}
        answer = {name: value for name, value in changed.items() if value is not None}
        with pytest.raises(Unauthenticated) as raised:
            await signing.service.finish(answer, attempt)

        assert type(raised.value) is error
        assert ("/token" in provider.paths) == (answers == {"code": "guessed"})


async def test_an_issuer_that_promises_its_name_must_give_it(database: Database) -> None:
    async with a_sign_in(database) as (signing, provider):
        provider.answers = {"iss": None}
        assert (await signing.person()).token
        provider.configuration["authorization_response_iss_parameter_supported"] = True
        assert await signing.service.keys.fetch(signing.service.provider) is None
        with pytest.raises(SignInRefused):
            await signing.person()


class TestAttempts:
    """Belong to one browser, and lead to one session."""

    async def test_an_answer_is_for_the_browser_that_began(self, database: Database) -> None:
        async with a_sign_in(database) as (signing, _):
            own, other = Attempt.new("/"), Attempt.new("/")
            answer = await signing.answer(own)
            with pytest.raises(SignInExpired):
                await signing.service.finish(answer, other)
            # The code of another sign-in: its verifier is not that of this one.
            stolen = {**await signing.answer(other), "code": answer["code"]}
            with pytest.raises(SignInRefused):
                await signing.service.finish(stolen, other)

    async def test_one_leads_to_one_session_whatever_the_issuer_allows(self, database: Database) -> None:
        async with a_sign_in(database) as (signing, provider):
            attempt = Attempt.new("/")
            answer = await signing.answer(attempt)
            asked = dict(provider.codes)
            await signing.service.finish(answer, attempt)
            with pytest.raises(SignInRefused):
                await signing.service.finish(answer, attempt)
            provider.codes = asked
            with pytest.raises(SignInExpired):
                await signing.service.finish(answer, attempt)

    def test_one_is_over_after_ten_minutes_and_says_so_itself(self) -> None:
        attempt = Attempt.new("/billing?run=a%2Fb")
        expires, secret, page = attempt.cookie.split(".")
        later = f"{int(expires) + 1}.{secret}.{page}"

        assert 0 < int(expires) - NOW() <= LIFETIME.total_seconds()
        assert Attempt.read(attempt.cookie) == attempt
        for wrong in (
            None,
            "",
            f"{int(NOW())}.{secret}.{page}",
            f"{expires}.{secret}",
            f"{expires}.x.{page}",
        ):
            assert Attempt.read(wrong) is None
        changed = not_none(Attempt.read(later))
        assert {changed.state, changed.nonce, changed.verifier}.isdisjoint(
            {attempt.state, attempt.nonce, attempt.verifier}
        )

    @pytest.mark.parametrize("page", ["//a.example", "/\\a", "https://a", "/a", "/?\n", "", "/%0a", "/@a"])
    def test_none_leads_to_another_site(self, page: str) -> None:
        assert Attempt.read(Attempt.new(page).cookie) is None


class TestIssuer:
    """Whose keys change, whose clock differs, and which is away."""

    async def test_new_keys_are_found_and_old_ones_end(self, database: Database) -> None:
        async with a_sign_in(database) as (signing, provider):
            await signing.person()
            old, provider.keys = provider.keys, [SigningKey.new("second")]
            signing.clock.now += FETCH_INTERVAL_S
            await signing.person()
            provider.keys = old
            with pytest.raises(TokenRefused, match="its kid names no key"):
                await signing.person()

    async def test_one_with_one_key_need_not_name_it(self, database: Database) -> None:
        async with a_sign_in(database) as (signing, provider):
            provider.header = {"kid": None}
            await signing.person()
            provider.keys.append(SigningKey.new("second"))
            assert await signing.service.keys.fetch(signing.service.provider) is None
            with pytest.raises(TokenRefused, match="its kid names no key"):
                await signing.person()

    async def test_another_implementation_signs_persons_in(self, database: Database) -> None:
        with warnings.catch_warnings(record=True):
            # Of its libraries, to each other.
            warnings.simplefilter("always")
            run = importlib.import_module("oidc_provider_mock").run_server_in_thread
            with run() as server:
                # It does not decode what is encoded, as usual ids and secrets are not.
                own = {
                    "ISSUER": f"http://localhost:{server.server_port}",
                    "CLIENT_ID": "c",
                    "CLIENT_SECRET": "s",
                }
                async with a_sign_in(database, **own, ROLES='{"*": "user"}') as (signing, _):
                    attempt = Attempt.new("/")
                    page = await signing.service.address(attempt)
                    back = await signing.browser.post(page, data={"sub": "ann"})
                    answer = dict(parse_qsl(urlsplit(back.headers["location"]).query))
                    opened = await signing.service.finish(answer, attempt)
                    end = await signing.service.address_of_end()

        assert opened.session.person == SignedInPerson("ann", "ann", "user")
        assert end is not None

    async def test_clocks_may_differ_by_a_minute(self, database: Database) -> None:
        async with a_sign_in(database) as (signing, provider):
            provider.changed = {"exp": NOW() - SKEW_S + 30, "iat": NOW() + SKEW_S - 30}
            await signing.person()
            provider.changed = {"exp": NOW() - SKEW_S - 1}
            with pytest.raises(TokenExpired):
                await signing.person()

    async def test_it_may_want_the_secret_in_the_form(self, database: Database) -> None:
        async with a_sign_in(database) as (signing, provider):
            provider.configuration["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
            assert (await signing.person()).token

    async def test_it_is_away(self, database: Database) -> None:
        async with a_sign_in(database) as (signing, provider):
            provider.status = 503
            with pytest.raises(IssuerUnavailable):
                await signing.person()
            provider.status = 200
            signing.clock.now += FETCH_INTERVAL_S
            attempt = Attempt.new("/")
            answer = await signing.answer(attempt)
            provider.status = 503
            with pytest.raises(IssuerUnavailable):
                await signing.service.finish(answer, attempt)

    @pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "javascript:alert(1)", "https://[", None])
    async def test_it_sends_browsers_nowhere_else(self, database: Database, url: str | None) -> None:
        async with a_sign_in(database) as (signing, provider):
            provider.configuration |= {"authorization_endpoint": url, "end_session_endpoint": url}
            with pytest.raises(IssuerUnavailable):
                await signing.service.address(Attempt.new("/"))
            assert await signing.service.address_of_end() is None


class TestAccess:
    """Of whom the issuer signs in."""

    async def test_a_person_without_a_role_has_no_session(self, database: Database) -> None:
        async with a_sign_in(database) as (signing, provider):
            for groups in (["others"], [], "staffs", {"staff": 1}, None):
                provider.changed = {"groups": groups}
                with pytest.raises(NoRole):
                    await signing.person()

    async def test_the_first_group_of_the_setting_decides(self, database: Database) -> None:
        roles = '{"admins": "admin", "*": "viewer"}'
        async with a_sign_in(database, ROLES=roles) as (signing, provider):
            found = []
            for groups in (["staff", "admins"], "admins", None):
                provider.changed = {"groups": groups}
                person = (await signing.person()).session.person
                found.append(person and person.role)

        assert found == ["admin", "admin", "viewer"]

    async def test_an_email_counts_if_the_issuer_has_verified_it(self, database: Database) -> None:
        by_email = {"ROLE_CLAIM": "email", "ROLES": '{"ann@example.org": "admin"}'}
        async with a_sign_in(database, **by_email) as (signing, provider):
            provider.person["email"] = "ann@example.org"
            for verified in (None, False, "true"):
                provider.changed = {"email_verified": verified}
                with pytest.raises(TokenRefused, match="its email is not verified"):
                    await signing.person()
            provider.changed = {"email_verified": True}
            assert (await signing.person()).session.scopes == ROLES["admin"]

    async def test_a_claim_names_one_of_the_accounts_that_are_given(self, database: Database) -> None:
        claim: dict[str, str | None] = {"ACCOUNT": None, "ACCOUNT_CLAIM": "org", "ACCOUNTS": "acme, house-*"}
        async with a_sign_in(database, **claim) as (signing, provider):
            await signing.service.holders.accounts.create_account("vault")
            provider.changed = {"org": "acme"}
            assert (await signing.person()).session.account == "acme"
            for org in ("vault", "house-1", None, ["acme"]):
                provider.changed = {"org": org}
                with pytest.raises(TokenRefused, match="account"):
                    await signing.person()

    async def test_it_ends_with_the_person_the_account_and_the_key(self, database: Database) -> None:
        async with a_sign_in(database) as (signing, provider):
            accounts, sessions = signing.service.holders.accounts, signing.service.sessions
            ann = await signing.person()
            provider.person["sub"] = "bob"
            bob = await signing.person()
            async with database.transaction() as tx:
                await accounts.erase_end_user(tx, ann.session.account_id, "ann")
            with pytest.raises(SessionEnded):
                await sessions.find(ann.token)
            await accounts.change_account(bob.session.account_id, suspended=True)
            with pytest.raises(AccountSuspended):
                await signing.person()
            await accounts.change_account(bob.session.account_id, suspended=False)
            await sessions.find(bob.token)
            await accounts.revoke_key(bob.session.api_key_id)
            with pytest.raises(SessionEnded):
                await sessions.find(bob.token)
            with pytest.raises(Unauthenticated):
                await signing.person()
