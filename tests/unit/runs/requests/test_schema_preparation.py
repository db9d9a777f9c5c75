from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.errors import Invalid
from app.graphs.spec import GraphSpec
from app.ids import AccountId, new_uuid
from app.platform.concurrency.offload import Offload
from app.platform.json_schema.checker import SchemaChecker
from app.platform.json_schema.document import SchemaDocument
from app.requests.client_tools import ClientTool
from app.requests.messages import Message
from app.requests.run_request import GraphRunRequest
from app.runs.requests.schema_preparation import SchemaPreparation
from tests.unit.platform.json_schema.schemas import a_bomb

OWNER = AccountId(new_uuid())
OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}}
KEYS: dict[str, Any] = {"name": "g", "description": "d", "system_prompt": "p"}
GRAPH = GraphSpec.model_validate(KEYS)
FORM = GraphSpec.model_validate({**KEYS, "input": {**OBJECT, "required": ["n"]}, "output": OBJECT})
UNUSABLE: list[dict[str, Any]] = [
    {"type": "array"},
    {"type": "object", "properties": 3},
    {"$ref": "https://example.org/x"},
    {"properties": {"a": {"pattern": "("}}},
    {"type": "object", "properties": [1], "anyOf": [{}]},
    {"properties": {"a": {"maximum": float("inf")}}},
    # Without the alternatives, which no model takes, the reference has no target.
    {"anyOf": [{"properties": {"a": {"$ref": "#/anyOf/1/properties/b"}}}, {"properties": {"b": {}}}]},
]


@pytest.fixture
async def schemas() -> AsyncIterator[SchemaPreparation]:
    async with SchemaChecker(workers=1, check_s=5.0) as checker:
        yield SchemaPreparation(checker, Offload())


def a_request(*tools: ClientTool, **fields: Any) -> GraphRunRequest:
    messages = [Message.of(role="user", content="hello")]
    return GraphRunRequest.of(graph_id="claude_agents:g", messages=messages, client_tools=tools, **fields)


def a_tool(name: str, schema: dict[str, Any] | None = None) -> ClientTool:
    return ClientTool(name=name, inputSchema=schema or {})


async def test_tools_that_cannot_be_used_are_named_or_left_out(schemas: SchemaPreparation) -> None:
    good = a_tool("good", OBJECT)
    prepared = await schemas.prepare(a_request(good, a_tool("b")), GRAPH, account_id=OWNER)
    assert list(prepared.client_tools) == ["good", "b"]

    for schema in UNUSABLE:
        tools = [good, a_tool("bad", schema)]
        with pytest.raises(Invalid) as error:
            await schemas.prepare(a_request(*tools), GRAPH, account_id=OWNER)
        (field,) = error.value.errors
        assert field.field == "clientTools.1.inputSchema"
        assert list((await schemas.usable(tools, account_id=OWNER)).client_tools) == ["good"]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"type": "object", "description": "x" * 100_000},
        {"type": "object", "properties": 3},
        {"type": "object", "$ref": "https://example.org/x"},
    ],
)
async def test_a_schema_of_an_answer_that_cannot_be_used_is_refused_by_name(
    schemas: SchemaPreparation, schema: dict[str, Any]
) -> None:
    with pytest.raises(Invalid) as error:
        await schemas.answer(schema, field="schema", account_id=OWNER)

    (field,) = error.value.errors
    assert field.field == "schema"
    assert field.message.startswith("is not a JSON schema that can be used: ")


@pytest.mark.parametrize("schema", [{}, {"type": "array"}, {"anyOf": [{"type": "object"}]}, OBJECT])
async def test_a_schema_of_anything_is_accepted(schemas: SchemaPreparation, schema: dict[str, Any]) -> None:
    prepared = await schemas.answer(schema, field="schema", account_id=OWNER)

    assert prepared.document.plain == schema


async def test_what_is_prepared_already_and_what_was_accepted_is_not_checked_again(
    schemas: SchemaPreparation,
) -> None:
    good, bad = a_tool("a", OBJECT), a_tool("a", UNUSABLE[1])
    known = await schemas.prepare(a_request(good), GRAPH, account_id=OWNER)

    assert await schemas.prepare(a_request(bad), GRAPH, account_id=OWNER, known=known) == known
    accepted = await schemas.prepare(a_request(a_tool("a", a_bomb())), GRAPH, account_id=None)
    assert accepted.client_tools["a"].checked == SchemaDocument.of(a_bomb())


def an_input(**given: Any) -> GraphRunRequest:
    return GraphRunRequest.of(graph_id="claude_agents:g", input=given)


async def test_an_input_is_checked_against_the_schema_of_its_graph(schemas: SchemaPreparation) -> None:
    await schemas.prepare(an_input(n=1), FORM, account_id=OWNER)

    for request, graph, where, why in [
        (an_input(n="one"), FORM, "input.n", "integer"),
        (an_input(), FORM, "input", "required"),
        (an_input(n=1), GRAPH, "input", "is not taken by the graph claude_agents:g: send messages"),
    ]:
        with pytest.raises(Invalid) as error:
            await schemas.prepare(request, graph, account_id=OWNER)
        (field,) = error.value.errors
        assert field.field == where
        assert why in field.message


async def test_an_answer_has_the_schema_of_its_graph_unless_the_request_has_one(
    schemas: SchemaPreparation,
) -> None:
    wanted: Any = {"type": "json_schema", "schema_": {"type": "array"}}

    of_graph = await schemas.prepare(a_request(), FORM, account_id=OWNER)
    of_request = await schemas.prepare(a_request(response_format=wanted), FORM, account_id=None)

    assert of_graph.answer == FORM.output
    assert of_request.answer is not None
    assert of_request.answer.document.plain == {"type": "array"}
    assert (await schemas.prepare(a_request(), GRAPH, account_id=OWNER)).answer is None
