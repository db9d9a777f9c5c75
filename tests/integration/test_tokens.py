"""Which tokens of an issuer are accepted, and whom they stand for."""

import base64
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from app.auth.accounts import Accounts
from app.auth.tokens.checks import SKEW_S, TokenExpired, TokenRefused
from app.auth.tokens.holders import KeyHolders
from app.auth.tokens.issuer_keys import FETCH_INTERVAL_S, FRESH_S, KEPT_S, IssuerKeys, IssuerUnavailable
from app.auth.tokens.service import Tokens
from app.errors import Unauthenticated
from app.platform.audit.records import AuditFilter
from app.platform.audit.service import AuditLog
from app.platform.clock.clock import host_time
from app.platform.db import Database
from app.platform.issuers.tokens import TokenIssuer
from app.platform.pagination import PageRequest
from app.requests.principal import AccountSuspended
from tests.architecture.tree import ROOT
from tests.token_issuers import AUDIENCE, IssuerOfTokens, SigningKey, an_issuer


@dataclass(slots=True)
class Clock:
    """A clock that is set."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def of(issuer: IssuerOfTokens, **fields: Any) -> TokenIssuer:
    """The issuer as the setting names it."""
    return TokenIssuer.model_validate(issuer.setting(**fields))


@asynccontextmanager
async def tokens_of(
    database: Database, *issuers: TokenIssuer, now: Callable[[], datetime] = host_time
) -> AsyncIterator[tuple[Tokens, Clock]]:
    """What accepts the tokens of these, over an account `acme`."""
    accounts, clock = Accounts(database), Clock()
    await accounts.create_account("acme")
    async with IssuerKeys(clock=clock, now=now) as keys:
        yield Tokens(KeyHolders(accounts), keys, issuers), clock


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_token_stands_for_an_end_user_of_an_account(database: Database, algorithm: str) -> None:
    async with an_issuer(SigningKey.new("k", algorithm)) as issuer:
        configured = of(issuer, graphs=["messages:*"], scopes=["runs:read"])
        async with tokens_of(database, configured) as (tokens, _):
            ann = await tokens.authenticate(issuer.token("ann"))
            bob = await tokens.authenticate(issuer.token("bob"))
        (key,) = await tokens.holders.accounts.list_keys()

    assert (ann.end_user, ann.terms.graphs) == ("ann", ("messages:*",))
    assert ann.scopes == {"runs:read"}
    assert (key.account, key.name, key.id) == ("acme", issuer.url, ann.api_key_id)
    assert replace(bob, end_user="ann", terms=ann.terms) == ann
    assert ann.rated_as != bob.rated_as
    assert issuer.paths == ["/.well-known/openid-configuration", "/keys"]


def segment(content: bytes) -> str:
    """A part of a token."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


ALG, LISTED, DEEP = segment(b'{"alg":"ES256"}'), segment(b'{"iss":["a"]}'), segment(b"[" * 4000)


def signed_with_the_public_key(issuer: IssuerOfTokens) -> str:
    """What a library accepts that takes the algorithm from the token."""
    public = issuer.keys[0].private.public_key()
    secret = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    parts = {"alg": "HS256", "typ": "JWT", "kid": "first"}, claims
    text = ".".join(segment(json.dumps(part).encode()) for part in parts)
    return f"{text}.{segment(hmac.digest(secret, text.encode(), 'sha256'))}"


def unsigned(issuer: IssuerOfTokens) -> str:
    header = b'{"alg":"none","typ":"JWT","kid":"first"}'
    return f"{segment(header)}.{issuer.token().split('.')[1]}."


def with_a_critical_part(issuer: IssuerOfTokens) -> str:
    header = b'{"alg":"ES256","kid":"first","crit":["b64"],"b64":true}'
    return f"{segment(header)}.{issuer.token().partition('.')[2]}"


def tampered(issuer: IssuerOfTokens) -> str:
    one, other = issuer.token("ann").split("."), issuer.token("bob").split(".")
    return ".".join([one[0], other[1], one[2]])


NOW = time.time


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (signed_with_the_public_key, "its alg is none"),
        (unsigned, "its alg is none"),
        (tampered, "its signature is not that of its key"),
        (lambda issuer: issuer.token(key=SigningKey.new("first")), "its signature is not that of its key"),
        (lambda issuer: issuer.token(key=SigningKey.new("first", "RS256")), "its key, signature or claims"),
        (lambda issuer: issuer.token(key=SigningKey.new("other")), "its kid names no key"),
        (lambda issuer: issuer.token(header={"kid": None}), "its kid names no key"),
        (with_a_critical_part, "its header must have"),
        (lambda issuer: issuer.token(header={"typ": "dpop+jwt"}), "its header must have"),
        (lambda issuer: issuer.token(aud="other"), "its aud is not"),
        (lambda issuer: issuer.token(aud=None), "it must have exp, iss and aud"),
        (lambda issuer: issuer.token(exp=None), "it must have exp, iss and aud"),
        (lambda issuer: issuer.token(exp="soon"), "its key, signature or claims"),
        (lambda issuer: issuer.token(exp=float("inf")), "its key, signature or claims"),
        (lambda issuer: issuer.token(nbf=NOW() + SKEW_S + 60), "it is not valid yet"),
        (lambda issuer: issuer.token(iat=NOW() + SKEW_S + 60), "it is not valid yet"),
        (lambda issuer: issuer.token(sub=None), "its sub must be the end user"),
        (lambda issuer: issuer.token("x" * 129), "its sub must be the end user"),
        (lambda issuer: issuer.token("~erased"), "its sub must be the end user"),
        (lambda issuer: issuer.token("a\nb"), "its sub must be the end user"),
        (lambda issuer: issuer.token("\ud800"), "its sub must be the end user"),
        (lambda issuer: issuer.token(note="x" * 8192), "it has more than 8192 characters"),
    ],
)
async def test_a_token_is_refused_in_our_words(database: Database, make: Any, why: str) -> None:
    async with an_issuer() as issuer, tokens_of(database, of(issuer)) as (tokens, _):
        token = make(issuer)
        with pytest.raises(TokenRefused) as raised:
            await tokens.authenticate(token)

    assert raised.value.detail.startswith(f"This token is not accepted: {why}")
    assert token not in raised.value.detail


@pytest.mark.parametrize(
    "token",
    [
        *("rt_" + "x" * 43, "", "a.b.c", "\ud800", jwt.encode({"iss": "https://other"}, "x" * 32)),
        f"{ALG}.{LISTED}.eA",
        f"{DEEP}.e30.eA",
    ],
)
async def test_what_names_no_known_issuer_is_like_an_unknown_key(database: Database, token: str) -> None:
    async with an_issuer() as issuer, tokens_of(database, of(issuer)) as (tokens, _):
        with pytest.raises(Unauthenticated) as raised:
            await tokens.authenticate(token)

    assert raised.value.code == "unauthenticated"
    assert issuer.paths == []


async def test_clocks_may_differ_by_a_minute(database: Database) -> None:
    async with an_issuer() as issuer, tokens_of(database, of(issuer)) as (tokens, _):
        past = await tokens.authenticate(issuer.token(exp=NOW() - SKEW_S + 30))
        await tokens.authenticate(issuer.token(nbf=NOW() + SKEW_S - 30, iat=NOW() + SKEW_S - 30))
        with pytest.raises(TokenExpired):
            await tokens.authenticate(issuer.token(exp=NOW() - SKEW_S - 1))
        late = await tokens.authenticate(issuer.token(exp=10**18))

    assert past.terms.expires_at is not None
    assert 0 < past.terms.expires_at.timestamp() - NOW() <= SKEW_S
    assert late.terms.expires_at is not None


@pytest.mark.parametrize(("hours", "error"), [(2, TokenExpired), (-2, TokenRefused)])
async def test_the_clock_that_others_confirm_decides_and_not_that_of_the_host(
    database: Database, hours: int, error: type[Unauthenticated]
) -> None:
    def now() -> datetime:
        return host_time() + timedelta(hours=hours)

    async with an_issuer() as issuer, tokens_of(database, of(issuer), now=now) as (tokens, _):
        with pytest.raises(error):
            await tokens.authenticate(issuer.token(exp=NOW() + 3600, iat=NOW()))
        await tokens.authenticate(issuer.token(exp=now().timestamp() + 3600, iat=now().timestamp()))


async def test_the_example_of_the_guide_is_accepted(database: Database) -> None:
    guide = (ROOT / "docs" / "SIGN_IN.md").read_text("utf-8")
    settings, example = (
        guide.partition(f"```{word}\n")[2].partition("```")[0] for word in ("json", "python")
    )
    (setting,) = json.loads(settings)
    async with an_issuer(SigningKey.new("2026-11")) as issuer:
        configured = TokenIssuer.model_validate({**setting, "jwksUrl": f"{issuer.url}/keys"})
        names: dict[str, Any] = {"PRIVATE_KEY": issuer.keys[0].private}
        exec(example, names)  # noqa: S102
        async with tokens_of(database, configured) as (tokens, _):
            ann = await tokens.authenticate(names["token_for"]("ann"))

    assert (ann.end_user, sorted(ann.scopes)) == ("ann", ["runs:read", "runs:write"])


async def test_a_key_counts_for_its_own_issuer_only(database: Database) -> None:
    async with an_issuer() as one, an_issuer() as other:
        issuers = of(one), of(other, account=None, accountClaim="org", accounts=["guests-*"])
        async with tokens_of(database, *issuers) as (tokens, _):
            await tokens.authenticate(one.token())
            with pytest.raises(TokenRefused, match="its signature is not that of its key"):
                await tokens.authenticate(other.token(iss=one.url))


async def test_weak_keys_and_keys_of_other_algorithms_are_refused(database: Database) -> None:
    weak = SigningKey("weak", "RS256", generate_rsa_key(65537, 1024))  # noqa: S505
    # Its curve is that of ES384.
    wide = SigningKey("wide", "ES384", generate_private_key(SECP384R1()))
    async with an_issuer(weak, wide) as issuer, tokens_of(database, of(issuer)) as (tokens, _):
        header = segment(b'{"alg":"ES256","typ":"JWT","kid":"wide"}')
        _, claims, signature = issuer.token(key=wide).split(".")
        with pytest.warns(jwt.InsecureKeyLengthWarning):
            short = issuer.token(key=weak)
        for token in (short, f"{header}.{claims}.{signature}"):
            with pytest.raises(TokenRefused, match="its key, signature or claims are not valid"):
                await tokens.authenticate(token)


class TestKeys:
    """Of an issuer are fetched when they are needed."""

    async def test_a_new_key_is_fetched_and_a_withdrawn_one_ends(self, database: Database) -> None:
        async with an_issuer() as issuer, tokens_of(database, of(issuer)) as (tokens, clock):
            old = issuer.token()
            await tokens.authenticate(old)
            issuer.keys = [SigningKey.new("second")]
            clock.now += FETCH_INTERVAL_S
            await tokens.authenticate(old)
            await tokens.authenticate(issuer.token())
            with pytest.raises(TokenRefused, match="its kid names no key"):
                await tokens.authenticate(old)

    async def test_a_withdrawn_key_ends_without_a_new_one(self, database: Database) -> None:
        async with an_issuer() as issuer, tokens_of(database, of(issuer)) as (tokens, clock):
            old = issuer.token()
            await tokens.authenticate(old)
            issuer.keys = []
            clock.now += FRESH_S
            with pytest.raises(TokenRefused, match="its kid names no key"):
                await tokens.authenticate(old)

    async def test_a_flood_of_unknown_keys_is_one_request(self, database: Database) -> None:
        async with an_issuer() as issuer:
            configured = of(issuer, jwksUrl=f"{issuer.url}/keys")
            async with tokens_of(database, configured) as (tokens, clock):
                for round_ in range(3):
                    for n in range(50):
                        with pytest.raises(TokenRefused):
                            await tokens.authenticate(issuer.token(key=SigningKey.new(f"{round_}-{n}")))
                    clock.now += FETCH_INTERVAL_S

        assert issuer.paths == ["/keys"] * 3

    async def test_they_are_kept_while_the_issuer_is_away(self, database: Database) -> None:
        async with an_issuer() as issuer, tokens_of(database, of(issuer)) as (tokens, clock):
            await tokens.authenticate(issuer.token())
            issuer.status = 503
            clock.now += KEPT_S - 1
            await tokens.authenticate(issuer.token())
            clock.now += FETCH_INTERVAL_S
            with pytest.raises(IssuerUnavailable):
                await tokens.authenticate(issuer.token())
            issuer.status = 200
            clock.now += FETCH_INTERVAL_S
            await tokens.authenticate(issuer.token())

    @pytest.mark.parametrize(
        "configuration",
        [
            {"issuer": "https://other.example.org"},
            {"jwks_uri": "http://127.0.0.1:1/keys"},
            {"jwks_uri": "https://["},
            {"jwks_uri": None},
            {"jwks_uri": "file:///etc/passwd"},
            {"padding": "x" * 300_000},
        ],
    )
    async def test_an_odd_configuration_names_no_keys(
        self, database: Database, configuration: dict[str, Any]
    ) -> None:
        async with an_issuer() as issuer, tokens_of(database, of(issuer)) as (tokens, _):
            issuer.configuration = configuration
            with pytest.raises(IssuerUnavailable):
                await tokens.authenticate(issuer.token())

        assert issuer.paths == ["/.well-known/openid-configuration"]


class TestAccounts:
    """Which account a token reaches, and until when."""

    async def test_a_claim_names_one_of_those_that_the_issuer_is_given(self, database: Database) -> None:
        accounts = Accounts(database)
        for name in ("house-1", "vault"):
            await accounts.create_account(name)
        async with an_issuer() as issuer:
            configured = of(issuer, account=None, accountClaim="org", accounts=["house-*"])
            async with tokens_of(database, configured) as (tokens, _):
                found = await tokens.authenticate(issuer.token(org="house-1"))
                for org in ("vault", "house-2", None, ["house-1"]):
                    with pytest.raises(TokenRefused, match=r"account"):
                        await tokens.authenticate(issuer.token(org=org))

        assert found.account_id == (await accounts.find_by_name("house-1")).id
        assert {key.account for key in await accounts.list_keys()} == {"house-1"}

    @pytest.mark.parametrize(
        ("claimed", "left"),
        [
            ("runs:read admin", {"runs:read"}),
            (["runs:read", 5, "runs:approve"], {"runs:read"}),
            (None, set()),
            (7, set()),
        ],
    )
    async def test_a_claim_only_narrows_the_scopes(
        self, database: Database, claimed: Any, left: set[str]
    ) -> None:
        async with an_issuer() as issuer:
            configured = of(issuer, scopeClaim="scope", scopes=["runs:write", "runs:read"])
            async with tokens_of(database, configured) as (tokens, _):
                found = await tokens.authenticate(issuer.token(scope=claimed))

        assert found.scopes == left

    async def test_its_key_ends_and_suspends_tokens(self, database: Database) -> None:
        async with an_issuer() as issuer, tokens_of(database, of(issuer)) as (tokens, _):
            accounts, token = tokens.holders.accounts, issuer.token()
            caller = await tokens.authenticate(token)
            await accounts.change_account(caller.account_id, suspended=True)
            with pytest.raises(AccountSuspended):
                await tokens.authenticate(token)
            await accounts.change_account(caller.account_id, name="acme-2", suspended=False)
            with pytest.raises(TokenRefused, match="its account does not exist"):
                await tokens.authenticate(token)
            await accounts.change_account(caller.account_id, name="acme")
            await accounts.revoke_key(caller.api_key_id)
            for process in (tokens, Tokens(KeyHolders(accounts), tokens.keys, tokens.issuers)):
                with pytest.raises(Unauthenticated):
                    await process.authenticate(token)
            again = Tokens(KeyHolders(accounts), tokens.keys, [of(issuer, audience="second")])
            other = await again.authenticate(issuer.token(aud=[AUDIENCE, "second"]))
        page, _ = await AuditLog(database).list_entries(AuditFilter(), PageRequest(10))

        assert other.api_key_id != caller.api_key_id
        assert [entry.action for entry in page].count("key.created") == 2
