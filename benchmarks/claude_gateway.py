"""`claude gateway` in front of a scripted model: the gateway that the CLI of Claude Code contains.

It is told about an identity provider, which it asks for its configuration only: nobody signs in, the token is
signed with its own secret, as a sign-in would have given it. Its PostgreSQL is that of Runtally's wheel.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import psutil
from joserfc import jwt
from joserfc.jwk import OctKey

from app.executors.claude_agent.process.cli import bundled_cli
from app.platform.embedded.ports import free_port
from app.platform.embedded.postgres import EmbeddedPostgres
from benchmarks.peers import running

_SECRET = "only-for-a-benchmark-on-loopback-0123456789"  # noqa: S105 - for a server that lives for a minute
_LASTS_S = 3600


@dataclass(frozen=True, slots=True)
class ClaudeGateway:
    """A running gateway."""

    url: str
    token: str
    """Of its only user."""
    admin_key: str
    process: psutil.Process


@asynccontextmanager
async def claude_gateway(model_url: str, directory: Path) -> AsyncIterator[ClaudeGateway]:
    """Start it; raises `PeerFailed`."""
    directory.mkdir(parents=True)  # noqa: ASYNC240 - before anything is measured
    port = free_port()
    async with _identity_provider() as issuer, EmbeddedPostgres.start(directory / "postgres") as postgres:
        config = {
            "listen": {"host": "127.0.0.1", "port": port},
            "upstreams": [
                {"provider": "anthropic", "base_url": _named(model_url), "auth": {"api_key": "simulated"}}
            ],
            "oidc": {"issuer": issuer, "client_id": "benchmark", "client_secret": "none"},
            "session": {"jwt_secret": _SECRET},
            "store": {"postgres_url": await _database(postgres.url)},
            "admin": {"write_keys": [{"id": "benchmark", "key": _SECRET}]},
        }
        path = directory / "gateway.yaml"
        path.write_text(json.dumps(config), "utf-8")  # JSON is YAML
        command = (str(bundled_cli()), "gateway", "--config", str(path))
        environment = {"CLAUDE_GATEWAY_ALLOW_LOOPBACK": "1", "DISABLE_TELEMETRY": "1"}
        url = f"http://127.0.0.1:{port}"
        async with running(command, directory, environment, f"{url}/readyz") as process:
            yield ClaudeGateway(url, _token(), _SECRET, process)


def _named(url: str) -> str:
    # It refuses addresses.
    return url.replace("127.0.0.1", "localhost")


async def _database(url: str) -> str:
    """A database for it: it refuses passwords that are hashed as quickly as those of an embedded server."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET scram_iterations = 4096")
        await connection.execute("CREATE ROLE gateway LOGIN PASSWORD 'gateway'")
        await connection.execute("CREATE DATABASE gateway OWNER gateway")
    finally:
        await connection.close()
    address = url.rpartition("@")[2].partition("/")[0]
    return f"postgresql://gateway:gateway@{address}/gateway"


def _token() -> str:
    """A session of its only user, as it signs them."""
    now = int(time.time())
    header = {"alg": "HS256", "typ": "JWT", "kid": hashlib.sha256(_SECRET.encode()).hexdigest()[:16]}
    claims = {"sub": "user", "email": "user@example.org", "groups": ["users"], "aud": "claude-gateway"}
    key = OctKey.import_key(_SECRET)
    return jwt.encode(header, {**claims, "iat": now, "exp": now + _LASTS_S}, key)


@asynccontextmanager
async def _identity_provider() -> AsyncIterator[str]:
    """Answers each request with a configuration without keys."""
    port = free_port()
    issuer = f"http://localhost:{port}"
    configuration = {
        "issuer": issuer,
        **dict.fromkeys(("authorization_endpoint", "token_endpoint", "jwks_uri"), issuer),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }
    body = json.dumps(configuration).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"{head}connection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", port):
        yield issuer
