"""The CLI's validator, with its options, takes the schemas that the model's side gets."""

import json

from app.platform.json_schema.conversion import VALUE
from tests.clients.node import node
from tests.unit.platform.json_schema.generated import GENERATED
from tests.unit.platform.json_schema.random_schemas import random_schemas
from tests.unit.platform.json_schema.schemas import model_schema_of


async def test_the_clis_validator_takes_every_model_schema_and_its_values() -> None:
    given = {}
    for name, case in GENERATED.items():
        shown = model_schema_of(case.schema)
        outputs = [{VALUE: value} if shown.is_wrapped else value for value in case.matching]
        given[name] = {"schema": shown.schema, "values": outputs}
    for number, each in enumerate(random_schemas(seed=2, count=500)):
        given[f"{number}: {json.dumps(each.schema)}"] = {"schema": each.shown.schema, "values": each.outputs}

    refused = json.loads(await node("strict_ajv.mjs", given=json.dumps(given)))

    assert refused == []
