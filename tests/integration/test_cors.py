import httpx

from app.simulator.script import in_turn
from tests.api_document import api_document
from tests.e2e.stories import WorldOf, a_request

FRIEND = "https://chat.example.org"
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization, content-type, idempotency-key, last-event-id",
}


def allowed(response: httpx.Response) -> str | None:
    """The origin that may read this."""
    found: str | None = response.headers.get("access-control-allow-origin")
    return found


async def test_other_origins_are_not_allowed_by_default(world_of: WorldOf) -> None:
    world = await world_of(in_turn())

    preflight = await world.http.options("/v1/runs", headers={"Origin": FRIEND, **PREFLIGHT})
    read = await world.http.get("/v1/runs", headers={"Origin": FRIEND})

    assert preflight.status_code == 405
    assert not [
        name for response in (preflight, read) for name in response.headers if "access-control" in name
    ]


async def test_a_configured_origin_is_allowed(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), RUNTALLY_CORS_ORIGINS=f"{FRIEND}, http://localhost:3000")

    preflight = await world.http.options("/v1/runs", headers={"Origin": FRIEND, **PREFLIGHT})
    read = await world.http.get("/v1/runs", headers={"Origin": FRIEND})
    failed = await world.http.post("/v1/runs", json=a_request(runId="/"), headers={"Origin": FRIEND})

    assert (preflight.status_code, allowed(preflight)) == (200, FRIEND)
    assert preflight.headers["access-control-allow-credentials"] == "true"
    assert allowed(read) == FRIEND
    assert "Origin" in read.headers["vary"]
    assert "Retry-After" in read.headers["access-control-expose-headers"]
    assert (failed.status_code, allowed(failed)) == (422, FRIEND)
    assert failed.headers["x-request-id"]


async def test_every_method_is_allowed_for_configured_origins_alone(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), RUNTALLY_CORS_ORIGINS=FRIEND)
    methods = {method.upper() for path in api_document()["paths"].values() for method in path}

    for method in methods:
        asked = {**PREFLIGHT, "Origin": FRIEND, "Access-Control-Request-Method": method}
        preflight = await world.http.options("/v1/runs", headers=asked)
        assert (preflight.status_code, allowed(preflight)) == (200, FRIEND), method
    for origin in ("https://evil.example.org", f"{FRIEND}.evil.net", "null", "http://chat.example.org"):
        preflight = await world.http.options("/v1/runs", headers={"Origin": origin, **PREFLIGHT})
        read = await world.http.get("/v1/runs", headers={"Origin": origin})
        assert (preflight.status_code, allowed(preflight), allowed(read)) == (400, None, None), origin
    assert {"PUT", "PATCH"} <= methods
