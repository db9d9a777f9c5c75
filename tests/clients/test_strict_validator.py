"""The CLI's validator, with its options, takes the schemas that the model's side gets."""

import json

from app.json_schema.conversion import VALUE
from app.json_schema.model_form import model_form
from tests.clients.node import node
from tests.unit.json_schema.generated import GENERATED
from tests.unit.json_schema.random_schemas import random_schemas


async def test_the_clis_validator_takes_every_form_and_its_values() -> None:
    given = {}
    for name, case in GENERATED.items():
        form = model_form(case.schema)
        outputs = [{VALUE: value} if form.is_wrapped else value for value in case.matching]
        given[name] = {"schema": form.schema, "values": outputs}
    for number, each in enumerate(random_schemas(seed=2, count=500)):
        given[f"{number}: {json.dumps(each.schema)}"] = {"schema": each.form.schema, "values": each.outputs}

    refused = json.loads(await node("strict_ajv.mjs", given=json.dumps(given)))

    assert refused == []
