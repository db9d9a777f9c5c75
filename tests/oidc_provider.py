"""A provider of OpenID Connect on loopback: strict, but for what a test breaks."""

import base64
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx

from app.platform.issuers.persons import CALLBACK
from app.platform.server.loopback import Receive, Scope, Send, read_body, serve_on_loopback
from tests.token_issuers import IssuerOfTokens, SigningKey

CLIENT, SECRET = "run tally", "s3cret:+&"
"""Which have what must be encoded."""
START = "/v1/browser-session/oidc"
ROLES = {"admins": "admin", "finance": "billing", "support": "viewer", "staff": "user"}


@dataclass(slots=True)
class OidcProvider(IssuerOfTokens):
    """Signs `person` in at once."""

    person: dict[str, Any] = field(default_factory=lambda: {"sub": "ann", "name": "Ann", "groups": ["staff"]})
    changed: dict[str, Any] = field(default_factory=dict)
    """Claims of its tokens that are not as they should be; None leaves one out."""
    answers: dict[str, str | None] = field(default_factory=dict)
    """The same for what browsers come back with."""
    header: dict[str, Any] = field(default_factory=dict)
    make: Callable[["OidcProvider", str], str] = lambda _, token: token
    """What becomes of a token."""
    redirect_url: str = f"http://127.0.0.1:9{CALLBACK}"
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path, asked = scope["path"], dict(parse_qsl(scope["query_string"].decode()))
        if path == "/authorize":
            await _answer(send, 302, location=self._authorized(asked))
        elif path == "/token":
            self.paths.append(path)
            form = dict(parse_qsl((await read_body(receive)).decode()))
            token = self._redeemed(form, dict(scope["headers"]).get(b"authorization", b"").decode())
            await _answer(send, 400 if token is None else self.status, {"id_token": token})
        elif path == "/logout":
            assert asked["client_id"] == CLIENT
            await _answer(send, 302, location=asked["post_logout_redirect_uri"])
        else:
            await IssuerOfTokens.__call__(self, scope, receive, send)

    def settings(self, **others: str | None) -> dict[str, str]:
        """Those of a server at which its persons sign in."""
        usual = {
            "ISSUER": self.url,
            "CLIENT_ID": CLIENT,
            "CLIENT_SECRET": SECRET,
            "REDIRECT_URL": self.redirect_url,
            "ACCOUNT": "acme",
            "ROLES": json.dumps(ROLES),
        }
        chosen = {**usual, **others}
        return {f"RUNTALLY_OIDC_{name}": value for name, value in chosen.items() if value is not None}

    def _authorized(self, asked: dict[str, str]) -> str:
        assert asked["response_type"] == "code"
        assert (asked["client_id"], asked["redirect_uri"]) == (CLIENT, self.redirect_url)
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        answer = {
            "code": code,
            "state": asked["state"],
            "iss": self.url,
            "session_state": "x",
            **self.answers,
        }
        given = {name: value for name, value in answer.items() if value is not None}
        return f"{self.redirect_url}?{urlencode(given)}"

    def _redeemed(self, form: Mapping[str, str], authorization: str) -> str | None:
        asked = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        pair = form.get("client_id"), form.get("client_secret")
        if authorization:
            encoded = base64.b64decode(authorization.removeprefix("Basic ")).decode().split(":")
            pair = tuple(dict(parse_qsl(f"x={part}"))["x"] for part in encoded)  # type: ignore[assignment]
        is_right = pair == (CLIENT, SECRET) and form["grant_type"] == "authorization_code"
        if not is_right or asked is None or challenge != asked["code_challenge"]:
            return None
        assert form["redirect_uri"] == asked["redirect_uri"]
        claims = {"aud": CLIENT, "nonce": asked["nonce"], **self.person, **self.changed}
        subject = claims.pop("sub")
        return self.make(self, self.token(subject, header=self.header, **claims))


async def _answer(send: Send, status: int, content: Any = None, **headers: str) -> None:
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})


@asynccontextmanager
async def a_provider(*keys: SigningKey) -> AsyncIterator[OidcProvider]:
    """Serve while the body runs."""
    provider = OidcProvider(list(keys) or [SigningKey.new("first")])
    async with serve_on_loopback(provider) as provider.url:
        ends = {"authorization": "authorize", "token": "token", "end_session": "logout"}
        provider.configuration = {f"{name}_endpoint": f"{provider.url}/{path}" for name, path in ends.items()}
        yield provider


def path_of(url: str) -> str:
    """A URL without its server: providers of tests do not know where that is."""
    return urlsplit(url)._replace(scheme="", netloc="").geturl()


async def sign_in(browser: httpx.AsyncClient, page: str = "/") -> httpx.Response:
    """Go to the provider and come back; what our server says to that."""
    begun = await browser.get(START, params={"next": page})
    assert begun.status_code == 303, begun.text
    answered = await browser.get(begun.headers["location"])
    return await browser.get(path_of(answered.headers["location"]))
