"""The real Claude Code, signed in to this server as `/login` leaves it.

`/login` itself needs a terminal; tests/integration/test_device_logins.py sends what it sends.
"""

import json
import time
from pathlib import Path
from typing import Any

from app.requests.attribution import KeyLabels
from app.simulator.script import Reply, Text
from tests.e2e.stories import World, WorldOf, a_client, until
from tests.e2e.test_claude_code_uses_this_server import claude_with
from tests.integration.external_calls import new_key, sessions
from tests.integration.test_device_logins import post, signed_in
from tests.otlp import an_otlp_receiver


def store(home: Path, world: World, tokens: dict[str, Any], *, expires_in_s: float) -> Path:
    """Write what Claude Code keeps of its sign-in; without TLS its mark of trust is a constant."""
    stored = home / ".claude" / ".credentials.json"
    stored.parent.mkdir(exist_ok=True)
    gateway = {
        "url": f"{world.url}/anthropic",
        "jwt": tokens["access_token"],
        "expiresAt": int((time.time() + expires_in_s) * 1000),
        "tokenEndpoint": f"{world.url}/anthropic/oauth/token",
        "revocationEndpoint": f"{world.url}/anthropic/oauth/revoke",
        "idpRefreshToken": tokens["refresh_token"],
        "email": tokens["email"],
    }
    trust = {"127.0.0.1": "http-loopback"}
    stored.write_text(json.dumps({"enterpriseGateway": gateway, "gatewayTrust": trust}))
    return stored


async def test_it_calls_the_model_refreshes_its_sign_in_and_learns_of_its_end(
    world_of: WorldOf, tmp_path: Path
) -> None:
    world = await world_of(lambda _: Reply([Text("Hello, Anna.")]))
    key = await new_key(world, "acme", labels=KeyLabels.of(end_user="anna", fixed=True))
    tokens = await signed_in(world, key)
    stored = store(tmp_path, world, tokens, expires_in_s=-10)

    first = await claude_with(tmp_path, "--", "hello")
    kept = json.loads(stored.read_text())["enterpriseGateway"]
    second = await claude_with(tmp_path, "--", "hello")
    async with a_client(world.url, key) as person:
        users = {run["endUser"] for run in await sessions(person)}
    calls = len(world.simulator.requests)
    await post(world, "revoke", token=kept["jwt"])
    status, shown = await claude_with(tmp_path, "--", "hello")

    assert first == second == (0, "Hello, Anna.\n")
    assert kept["jwt"] != tokens["access_token"]
    assert kept["idpRefreshToken"] != tokens["refresh_token"]
    assert users == {"anna"}
    assert (status, len(world.simulator.requests)) == (1, calls)
    assert "This login has ended; sign in again." in shown


async def test_its_telemetry_comes_with_the_sign_in(world_of: WorldOf, tmp_path: Path) -> None:
    async with an_otlp_receiver() as otlp:
        world = await world_of(lambda _: Reply([Text("ok")]), OTEL_EXPORTER_OTLP_ENDPOINT=otlp.url)
        key = await new_key(world, "acme", labels=KeyLabels.of(end_user="anna", fixed=True))
        store(tmp_path, world, await signed_in(world, key), expires_in_s=3600)
        done = await claude_with(
            tmp_path,
            *("--", "hello"),
            CLAUDE_CODE_ENABLE_TELEMETRY="1",
            OTEL_METRICS_EXPORTER="otlp",
            OTEL_LOGS_EXPORTER="otlp",
            OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        )
        relays = world.services.telemetry.clients
        await until(lambda: relays["logs"].results["forwarded"] > 0 < relays["metrics"].results["forwarded"])

    assert done == (0, "ok\n")
    assert {each["user.id"] for each in otlp.resources if "runtally.api_key" in each} == {"anna"}
