"""The simulator's usage objects against the types of the official client, by introspection."""

import types
import typing
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import pytest
from anthropic.types import MessageDeltaUsage, Usage
from anthropic.types.beta import BetaMessageDeltaUsage, BetaUsage
from anthropic.types.beta.beta_iterations_usage import BetaIterationsUsageItem
from pydantic import BaseModel, TypeAdapter

from tests.provider.usage_objects import (
    IN_DELTA,
    FallbackCredit,
    Iteration,
    IterationType,
    ServiceTier,
    Speed,
    TokenCounts,
    UsageObject,
)

EVERY_KIND = TokenCounts(input=1, output=2, cache_read=3, cache_write_5m=4, cache_write_1h=5)


def full(credit: FallbackCredit = "not_applied") -> UsageObject:
    return UsageObject(
        EVERY_KIND,
        inference_geo="us",
        service_tier="priority",
        speed="fast",
        thinking_tokens=1,
        server_tools={"web_search_requests": 2, "web_fetch_requests": 3},
        iterations=[Iteration(kind, EVERY_KIND, "claude-opus-5-5") for kind in get_args(IterationType)],
        fallback_credit=credit,
    )


def fields_of(*models: type[BaseModel]) -> set[str]:
    return {name for model in models for name in model.model_fields}


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that an annotation is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (typing.Union, types.UnionType, list, typing.Annotated):
        for part in get_args(annotation):
            yield from models_in(part)


def undeclared(value: Any, *models: type[BaseModel]) -> list[str]:
    """Keys of an object, at any depth, that none of the models declares."""
    found = []
    for name, part in value.items():
        declared = [model.model_fields[name].annotation for model in models if name in model.model_fields]
        if not declared:
            found.append(name)
        inner = [model for annotation in declared for model in models_in(annotation)]
        for each in part if isinstance(part, list) else [part]:
            if isinstance(each, dict):
                found += [f"{name}.{key}" for key in undeclared(each, *inner)]
    return found


def test_an_object_has_every_field_of_the_clients_types_and_no_other() -> None:
    usage = full().to_json()

    assert set(usage) == fields_of(Usage, BetaUsage)
    assert all(usage.values())
    assert undeclared(usage, BetaUsage) == []


@pytest.mark.parametrize("part", ["cache_creation", "server_tool_use", "output_tokens_details"])
def test_each_nested_object_has_every_field(part: str) -> None:
    (model,) = models_in(BetaUsage.model_fields[part].annotation)

    assert set(full().to_json()[part]) == fields_of(model)


def test_iterations_have_every_type_and_field() -> None:
    kinds = {
        get_args(each.model_fields["type"].annotation)[0]: each for each in models_in(BetaIterationsUsageItem)
    }

    assert set(get_args(IterationType)) == set(kinds)
    for kind, model in kinds.items():
        iteration = Iteration(typing.cast(IterationType, kind), EVERY_KIND, "claude-opus-5-5").to_json()
        # A compaction names no model: it is the message's own.
        assert fields_of(model) - {"model"} == set(iteration) - {"model"}
        assert "model" not in Iteration(typing.cast(IterationType, kind), EVERY_KIND).to_json()


@pytest.mark.parametrize(("name", "values"), [("service_tier", ServiceTier), ("speed", Speed)])
def test_values_are_those_of_the_client(name: str, values: Any) -> None:
    literal = next(each for each in get_args(BetaUsage.model_fields[name].annotation) if get_args(each))

    assert get_args(values) == get_args(literal)


def test_a_credit_has_every_status() -> None:
    (model,) = models_in(BetaUsage.model_fields["fallback_credit"].annotation)
    statuses = {
        get_args(each.model_fields["type"].annotation)[0]
        for each in models_in(model.model_fields["status"].annotation)
    }

    assert set(get_args(FallbackCredit)) == statuses


@pytest.mark.parametrize("credit", get_args(FallbackCredit))
def test_the_client_reads_the_object_as_it_was_written(credit: FallbackCredit) -> None:
    usage = full(credit)

    for model, value in ((BetaUsage, usage.to_json()), (BetaMessageDeltaUsage, usage.ended())):
        read = TypeAdapter(model).validate_python(value)
        assert read.model_dump(exclude_unset=True) == value


def test_a_stream_reports_each_part_where_the_api_does() -> None:
    usage = full()

    assert fields_of(MessageDeltaUsage, BetaMessageDeltaUsage) == IN_DELTA == set(usage.ended())
    assert {**usage.started(), **usage.ended()} == usage.to_json()
    assert usage.started()["output_tokens"] == 1
    assert not {"iterations", "server_tool_use"} & set(usage.started())


def test_keys_that_the_client_does_not_know_come_with_the_end() -> None:
    usage = UsageObject(EVERY_KIND, others={"new_counter": 7})

    assert (usage.ended()["new_counter"], "new_counter" in usage.started()) == (7, False)
