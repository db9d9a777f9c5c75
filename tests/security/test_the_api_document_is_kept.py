"""The API answers whatever is sent to it as its OpenAPI document says.

`FUZZ_EXAMPLES=200 FUZZ_SEED=7` send more, and other things. How much is sent is a number, not a time: so a
machine's speed decides nothing about what is found.
"""

import os
import re

import pytest

from tests.e2e.stories import KEY
from tests.security.conftest import OpenTarget
from tests.security.fuzzing import fuzzed

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "10"))
"""For each operation, in addition to those that follow from the document."""
SETTINGS = {
    "RUNTALLY_MAX_FAILED_KEYS_PER_MINUTE": "100000",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
}
"""What is answered 429 says nothing of the rest. Telemetry of clients is read only if it is passed on."""
SEED = int(os.environ.get("FUZZ_SEED", "1"))
APART = {
    "runs": "^/v1/(runs|generate)",
    "what starts runs": "^/v1/(sessions|batches|schedules|webhooks)",
    "the wires of others": "^/(anthropic|managed-agents|mcp|openai|v1/ag-ui|v1/ai-sdk)",
}
"""Which paths are sent to at the same time, in tests of their own."""
PATHS = {**APART, "the rest": f"^(?!{'|'.join(pattern.removeprefix('^') for pattern in APART.values())})"}


@pytest.mark.parametrize("part", PATHS)
async def test_every_response_matches_the_document(
    open_target: OpenTarget, model_url: str, part: str
) -> None:
    async with open_target(model_url, **SETTINGS) as target:
        code, output = await fuzzed(target, KEY, paths=PATHS[part], examples=EXAMPLES, seed=SEED)

    assert code == 0, output
    assert re.search(r"Operations: +[1-9]\d* selected", output), output
