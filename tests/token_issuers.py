"""An issuer of tokens on loopback: a backend of a house, with its keys and its OpenID configuration."""

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa_key

from app.platform.server.loopback import Receive, Scope, Send, serve_on_loopback

AUDIENCE = "runtally"
_MAKE: Mapping[str, Any] = {
    "RS256": lambda: generate_rsa_key(65537, 2048),
    "ES256": lambda: generate_private_key(SECP256R1()),
    "EdDSA": Ed25519PrivateKey.generate,
}


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key of an issuer."""

    kid: str
    algorithm: str
    private: Any

    @classmethod
    def new(cls, kid: str, algorithm: str = "ES256") -> "SigningKey":
        """A key that nothing else has."""
        return cls(kid, algorithm, _MAKE[algorithm]())

    @property
    def jwk(self) -> dict[str, Any]:
        """Its public part."""
        to_jwk: Any = jwt.get_algorithm_by_name(self.algorithm).to_jwk
        return {**to_jwk(self.private.public_key(), as_dict=True), "kid": self.kid, "use": "sig"}


@dataclass(slots=True)
class IssuerOfTokens:
    """Serves its keys; `paths` are the requests that came, `status` what they are answered with."""

    keys: list[SigningKey] = field(default_factory=lambda: [SigningKey.new("first")])
    url: str = ""
    configuration: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    paths: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer a request."""
        self.paths.append(scope["path"])
        own = {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **self.configuration}
        content = own if "well-known" in scope["path"] else {"keys": [key.jwk for key in self.keys]}
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(content).encode()})

    @property
    def now(self) -> int:
        """Its clock."""
        return int(time.time())

    def token(
        self, end_user: str = "ann", *, key: SigningKey | None = None, header: Any = None, **claims: Any
    ) -> str:
        """A token that is valid for an hour, but for these claims: None leaves one out."""
        key, now = key or self.keys[0], self.now
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": end_user, "iat": now, "exp": now + 3600}
        content = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        given = {"kid": key.kid, **(header or {})}
        headers = {name: value for name, value in given.items() if value is not None}
        return jwt.encode(content, key.private, algorithm=key.algorithm, headers=headers)

    def setting(self, **fields: Any) -> dict[str, Any]:
        """Its entry of `RUNTALLY_JWT_ISSUERS`."""
        scopes = ["runs:write", "runs:read", "runs:approve", "receipts:read"]
        usual = {"issuer": self.url, "audience": AUDIENCE, "account": "acme", "scopes": scopes}
        return {name: value for name, value in {**usual, **fields}.items() if value is not None}


@asynccontextmanager
async def an_issuer(*keys: SigningKey) -> AsyncIterator[IssuerOfTokens]:
    """Serve while the body runs."""
    issuer = IssuerOfTokens(list(keys) or [SigningKey.new("first")])
    async with serve_on_loopback(issuer) as issuer.url:
        yield issuer
