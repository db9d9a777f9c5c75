"""Request models reject values of other JSON types than documented."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, get_args, get_origin

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import AwareDatetime, BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from app.http.ag_ui.input import InterruptAnswer
from app.http.routers import ROUTERS
from app.requests.run_request import GraphRunRequest, RunLimits

LOOK_ALIKES: dict[type, tuple[object, ...]] = {
    int: (True, "60", 60.0),
    float: (True, "60"),
    bool: (1, 0, "true", "yes"),
    Decimal: (True, 1.5, " 1 ", "1_0"),
    str: (1, True, 1.5),
}
"""By type: values of other types that lax validation accepts."""


def _of_dependant(dependant: Dependant) -> Iterator[Any]:
    for field in dependant.body_params:
        yield field.field_info.annotation
    for inner in dependant.dependencies:
        yield from _of_dependant(inner)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from _models_in(field.annotation)
    for part in get_args(annotation):
        yield from _models_in(part)


def _scalars_in(annotation: Any) -> set[type]:
    """The types of which a value can be; none for lists and objects."""
    if get_origin(annotation) in {list, tuple, dict}:
        return set()
    if isinstance(annotation, type) and annotation in LOOK_ALIKES:
        return {annotation}
    return {scalar for part in get_args(annotation) for scalar in _scalars_in(part)}


def _request_models() -> list[type[BaseModel]]:
    bodies = [
        annotation
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for annotation in _of_dependant(route.dependant)
    ]
    # These are read in another way than as a parameter of a route.
    found = {model for body in [*bodies, InterruptAnswer, GraphRunRequest] for model in _models_in(body)}
    return sorted(found, key=lambda model: model.__name__)


def _fields() -> Iterator[tuple[str, FieldInfo]]:
    for model in _request_models():
        for name, field in model.model_fields.items():
            if _scalars_in(field.annotation):
                yield f"{model.__name__}.{name}", field


def _accepted(field: FieldInfo, values: Iterable[object]) -> list[object]:
    """Which of these values a field accepts."""
    annotated: Any = Annotated[field.annotation, None, *field.metadata]
    reader: TypeAdapter[Any] = TypeAdapter(annotated)
    found = []
    for value in values:
        with suppress(ValidationError):
            reader.validate_python(value)
            found.append(value)
    return found


def test_values_of_other_types_are_rejected() -> None:
    fields = dict(_fields())
    assert {"RunLimits.timeout_s", "Grant.credits", "UiApproval.approved", "WebhookChange.enabled"} <= set(
        fields
    )
    wrong = {}
    for name, field in fields.items():
        scalars = _scalars_in(field.annotation)
        values = [value for scalar in scalars for value in LOOK_ALIKES[scalar] if type(value) not in scalars]
        if accepted := _accepted(field, values):
            wrong[name] = accepted
    assert wrong == {}


def _parameters(dependant: Dependant) -> Iterator[FieldInfo]:
    for parameter in dependant.query_params:
        yield parameter.field_info
    for inner in dependant.dependencies:
        yield from _parameters(inner)


def _times() -> Iterator[tuple[str, FieldInfo]]:
    for model in _request_models():
        yield from ((f"{model.__name__}.{name}", field) for name, field in model.model_fields.items())
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute):
                yield from ((f"{route.path} {field.alias}", field) for field in _parameters(route.dependant))


def _has_time(annotation: Any) -> bool:
    return annotation in {datetime, AwareDatetime} or any(map(_has_time, get_args(annotation)))


def test_times_beyond_the_calendar_are_rejected() -> None:
    times = {name: field for name, field in _times() if _has_time(field.annotation)}
    assert {"GraphRunRequest.start_after", "ScheduleChange.end_at", "/v1/receipts from"} <= set(times)
    beyond = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00")
    assert {name: taken for name, field in times.items() if (taken := _accepted(field, beyond))} == {}


def test_a_stored_limit_is_parsed_unchanged() -> None:
    limits = RunLimits.model_validate({"maxBudgetUsd": "0.0000001", "timeoutS": 5})

    assert (
        RunLimits.model_validate(limits.model_dump(mode="json", by_alias=True, exclude_none=True)) == limits
    )
