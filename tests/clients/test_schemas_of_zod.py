"""The schemas that the tests of structured answers use are those of the pinned zod.

After a new release: `node zod_schemas.mjs | python3 -m json.tool --indent 1 > ../unit/json_schema/zod.json`.
"""

import json
from pathlib import Path

from tests.clients.node import node
from tests.unit.platform.json_schema import generated


async def test_zod_makes_the_schemas_that_are_tested() -> None:
    printed = json.loads(await node("zod_schemas.mjs"))

    kept = json.loads(Path(generated.__file__).with_name("zod.json").read_text("utf-8"))
    assert printed == kept
    assert printed.keys() == {name for name in generated.GENERATED if name.startswith("zod: ")}
