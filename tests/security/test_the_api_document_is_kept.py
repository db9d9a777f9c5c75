"""The API answers whatever is sent to it as its OpenAPI document says.

`FUZZ_S=600 FUZZ_SEED=7` look longer and elsewhere.
"""

import os
import re

import pytest

from tests.e2e.stories import KEY
from tests.security.conftest import OpenTarget
from tests.security.fuzzing import fuzzed

pytestmark = pytest.mark.long

SECONDS = int(os.environ.get("FUZZ_S", "10"))
ENOUGH = 75
"""So many requests mean something; a machine too slow for them gets twice the time, and twice that."""
WITHOUT_RATES = {
    "RUNTALLY_MAX_WRITES_PER_SECOND": "100000",
    "RUNTALLY_MAX_FAILED_KEYS_PER_MINUTE": "100000",
}
"""What is answered 429 says nothing of the rest."""
SEED = int(os.environ.get("FUZZ_SEED", "1"))


async def test_every_response_matches_the_document(open_target: OpenTarget, model_url: str) -> None:
    async with open_target(model_url, **WITHOUT_RATES) as target:
        for seconds in (SECONDS, 2 * SECONDS, 4 * SECONDS):
            code, output = await fuzzed(target, KEY, seconds=seconds, seed=SEED)
            sent = re.search(r"(\d+) generated", output)
            assert code == 0, output
            if sent and int(sent[1]) >= ENOUGH:
                return

    pytest.fail(output)
