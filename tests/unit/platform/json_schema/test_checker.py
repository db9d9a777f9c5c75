import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.platform.json_schema.checker import SchemaChecker, SchemaMismatch, SchemasBusy, ValueUncheckable
from app.platform.json_schema.document import SchemaDocument, SchemaUnusable
from tests.unit.platform.json_schema.schemas import a_bomb

USUAL = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "word": {"type": "string", "pattern": "^[a-z]+$"}},
    "required": ["n"],
    "additionalProperties": False,
}

DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
DRAFT_7 = "http://json-schema.org/draft-07/schema"
PAIR = {"items": [{"type": "integer"}, {"type": "string"}]}


@pytest.fixture
async def schemas() -> AsyncIterator[SchemaChecker]:
    async with SchemaChecker(workers=2, check_s=0.5) as checker:
        yield checker


def workers() -> list[psutil.Process]:
    """Of this process, in their order of age."""
    children = psutil.Process().children()
    return [child for child in children if any("confined/worker.py" in arg for arg in child.cmdline())]


async def test_values_are_checked_against_a_schema(schemas: SchemaChecker) -> None:
    await schemas.require_usable(USUAL, owner="a")

    assert await schemas.mismatch(SchemaDocument.of(USUAL), {"n": 1, "word": "one"}, owner="a") is None
    assert await schemas.mismatch(SchemaDocument.of(USUAL), {"n": "1"}, owner="a") == SchemaMismatch(
        ("n",), '"1" is not of type "integer"'
    )
    found = await schemas.mismatch(SchemaDocument.of(USUAL), {}, owner="a")
    assert found == SchemaMismatch((), '"n" is a required property')


@pytest.mark.parametrize("pattern", ["((((", "a{100000000000000000000}", "[z-a]"])
@pytest.mark.parametrize("holder", ["pattern", "patternProperties"])
async def test_what_is_no_pattern_is_refused(schemas: SchemaChecker, pattern: str, holder: str) -> None:
    schema: dict[str, Any] = (
        {"pattern": pattern} if holder == "pattern" else {"patternProperties": {pattern: {}}}
    )

    with pytest.raises(SchemaUnusable, match=rf"^#/properties/x/{holder}.* can be used"):
        await schemas.require_usable({"properties": {"x": schema}}, owner="a")


@pytest.mark.parametrize(("pattern", "matching"), [(r"^(?!b)a+$", "aa"), (r"^(a)\1$", "aa")])
async def test_look_around_and_references_are_matched(
    schemas: SchemaChecker, pattern: str, matching: str
) -> None:
    schema = {"type": "string", "pattern": pattern}

    assert await schemas.mismatch(SchemaDocument.of(schema), matching, owner="a") is None
    assert await schemas.mismatch(SchemaDocument.of(schema), "b", owner="a") is not None


@pytest.mark.parametrize("pattern", [r"^(?!x)(a*)*(?=b)\1c$", "^(a+)+$"])
async def test_a_pattern_that_backtracks_without_end_is_checked_quickly(
    schemas: SchemaChecker, pattern: str
) -> None:
    endless = {"type": "string", "pattern": pattern}

    assert await schemas.mismatch(SchemaDocument.of(endless), "a" * 100_000 + "b", owner="a") is not None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strin"},
        {"required": "n"},
        {"$ref": "#/$defs/nowhere"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": 1},
    ],
)
async def test_an_invalid_schema_is_refused_with_its_location(
    schemas: SchemaChecker, schema: dict[str, Any]
) -> None:
    with pytest.raises(SchemaUnusable):
        await schemas.require_usable(schema, owner="a")


async def test_a_slow_check_is_killed_and_the_next_one_works(schemas: SchemaChecker) -> None:
    with pytest.raises(SchemaUnusable, match="too long"):
        await schemas.require_usable(a_bomb(), owner="a")
    with pytest.raises(ValueUncheckable, match="too long"):
        await schemas.mismatch(SchemaDocument.of(a_bomb()), {}, owner="a")

    assert await schemas.mismatch(SchemaDocument.of(USUAL), {"n": 1}, owner="a") is None


async def test_the_event_loop_runs_while_an_exponential_schema_is_checked(schemas: SchemaChecker) -> None:
    checking = asyncio.create_task(schemas.require_usable(a_bomb(), owner="a"))
    turns = 0
    while not checking.done():
        await asyncio.sleep(0.001)
        turns += 1

    with pytest.raises(SchemaUnusable):
        await checking
    # A loop that was held would have had a handful.
    assert turns > 20


async def test_many_checks_of_one_owner_do_not_delay_others() -> None:
    async with SchemaChecker(workers=2, check_s=1) as schemas:
        await asyncio.gather(*(schemas.require_usable(USUAL, owner=name) for name in "ab"))
        bombs = [asyncio.create_task(schemas.require_usable(a_bomb(), owner="bad")) for _ in range(4)]
        await asyncio.sleep(0)

        await schemas.require_usable(USUAL, owner="good")

        assert not any(bomb.done() for bomb in bombs)
        for bomb in bombs:
            bomb.cancel()
        await asyncio.wait(bombs)
        # What was given up is not counted any more.
        await schemas.require_usable({**USUAL, "title": "bad"}, owner="bad")


async def test_the_number_of_waiting_checks_per_owner_is_limited() -> None:
    async with SchemaChecker(workers=1, check_s=0.3) as schemas:
        bombs = [asyncio.create_task(schemas.require_usable(a_bomb(), owner="bad")) for _ in range(17)]
        await asyncio.sleep(0)

        with pytest.raises(SchemasBusy):
            await schemas.require_usable(USUAL, owner="bad")
        without_limit = schemas.require_usable(USUAL, owner="bad", max_waiting=None)
        bombs.append(asyncio.create_task(without_limit))
        await asyncio.sleep(0)
        assert not bombs[-1].done()
        for bomb in bombs:
            bomb.cancel()
        await asyncio.wait(bombs)


async def test_a_worker_that_was_killed_is_replaced(schemas: SchemaChecker) -> None:
    await schemas.require_usable(USUAL, owner="a")
    (worker,) = workers()
    worker.kill()
    await asyncio.to_thread(worker.wait, 5)

    async def checked() -> bool:
        # That it has gone may be noticed only when it is asked: that check is lost, the next is not.
        (refused,) = await asyncio.gather(
            schemas.mismatch(SchemaDocument.of(USUAL), {"n": 1}, owner="a"), return_exceptions=True
        )
        return refused is None

    assert await checked() or await checked()


async def test_a_usable_schema_is_not_checked_again(schemas: SchemaChecker) -> None:
    await schemas.require_usable(USUAL, owner="a")
    await schemas.require_usable({**PAIR, "$schema": DRAFT_7}, owner="a")
    # The same text in another dialect is another schema.
    with pytest.raises(SchemaUnusable):
        await schemas.require_usable({**PAIR, "$schema": DRAFT_2020}, owner="a")
    (worker,) = workers()
    worker.kill()
    await asyncio.to_thread(worker.wait, 5)

    await schemas.require_usable({**USUAL, "$id": "https://example.org/usual"}, owner="b")
    assert workers() == []


async def test_a_worker_does_not_inherit_the_servers_environment(schemas: SchemaChecker) -> None:
    await schemas.require_usable(USUAL, owner="a")
    (worker,) = workers()

    assert set(worker.environ()) <= {"LC_CTYPE"}
    assert worker.rlimit(psutil.RLIMIT_AS)[0] == 512 * 1024 * 1024


async def test_closing_ends_all_workers() -> None:
    async with SchemaChecker(workers=2, check_s=1) as schemas:
        bomb = asyncio.create_task(schemas.require_usable(a_bomb(), owner="a"))
        await schemas.require_usable(USUAL, owner="b")
        bomb.cancel()
        await asyncio.wait({bomb})

    assert workers() == []


@pytest.mark.parametrize(
    "value", [10**5000, "\ud800", ["x" * 5_000_000]], ids=["endless", "half a character", "too large"]
)
async def test_a_value_that_is_no_json_is_not_checked(schemas: SchemaChecker, value: object) -> None:
    with pytest.raises(ValueUncheckable):
        await schemas.mismatch(SchemaDocument.of({}), value, owner="a")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["$ref", "$id", "anyOf", "items", "properties", "pattern", "type", "x", "not"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schema=st.dictionaries(st.sampled_from(["$ref", "allOf", "properties", "pattern", "$defs"]), _JSON))
async def test_every_input_gets_a_verdict(schemas: SchemaChecker, schema: dict[str, Any]) -> None:
    (refused,) = await asyncio.gather(schemas.require_usable(schema, owner="a"), return_exceptions=True)

    if isinstance(refused, BaseException):
        assert isinstance(refused, SchemaUnusable)
        assert refused.where.startswith("#")
        assert refused.reason
