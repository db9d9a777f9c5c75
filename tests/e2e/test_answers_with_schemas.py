"""Schemas as generators write them, with the real CLI and with the Messages API."""

import asyncio
from typing import Any

from app.simulator.script import ApiRequest, Reply, ToolUse
from tests.e2e.agents import every_agent
from tests.e2e.stories import OpenWorld, a_request
from tests.unit.platform.json_schema.generated import GENERATED, Generated

CASES = [GENERATED[name] for name in ("zod: an object with a format", "zod: a tuple")]
"""An object, and a value wrapped in one; all others: tests/clients/test_strict_validator.py."""


def answering(cases: list[Generated]) -> Any:
    """A model that answers each prompt, a number, with the first value of that case."""

    def respond(request: ApiRequest) -> Reply:
        case = cases[int(request.last_text)]
        value = case.matching[0]
        return Reply([ToolUse("StructuredOutput", {"value": value} if case.is_wrapped else value)])

    return respond


@every_agent
async def test_answers_match_the_schemas_of_generators(open_world: OpenWorld) -> None:
    async with open_world(answering(CASES), RUNTALLY_IDLE_PROCESSES=0) as world:
        formats = [{"type": "json_schema", "schema": case.schema} for case in CASES]
        bodies = [a_request(str(n), responseFormat=each) for n, each in enumerate(formats)]
        finals = await asyncio.gather(*(world.http.post("/v1/runs/wait", json=body) for body in bodies))
        too_large = {"type": "object", "description": "x" * 100_000}
        refused = await world.http.post(
            "/v1/runs", json=a_request(responseFormat={"type": "json_schema", "schema": too_large})
        )

    assert [final.json()["structuredOutput"] for final in finals] == [case.matching[0] for case in CASES]
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "responseFormat.schema")
