from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, Field, RootModel, computed_field

from runtally.tools.tool import Tool, ToolContext, ToolDefinitionError, ToolOutput, tool


class Args(BaseModel):
    city: str


class Out(BaseModel):
    summary: str
    hidden: str

    @computed_field
    def shout(self) -> str:
        return self.summary.upper()


class ListArgs(RootModel[list[str]]):
    pass


class ListOut(RootModel[list[str]]):
    pass


class NoSchema(BaseModel):
    call: Callable[[], None]


class Spaced(BaseModel):
    city: str = Field(alias="the city")


class Tree(BaseModel):
    children: list["Tree"]


async def answer(_args: Args, _context: ToolContext) -> ToolOutput[Out]:
    return ToolOutput("md", Out(summary="s", hidden="x"))


def define(handler: Any = answer, **changes: Any) -> Tool:
    settings: dict[str, Any] = {
        "id": "demo__weather",
        "description": "Weather of a city.",
        "effect": "read_only",
        "redact": ("summary",),
    }
    return tool(**(settings | changes))(handler)


def fault(handler: Any = answer, **changes: Any) -> str:
    with pytest.raises(ToolDefinitionError) as caught:
        define(handler, **changes)
    return str(caught.value)


def test_the_input_schema_is_an_object() -> None:
    schema = define().input_schema
    assert schema["type"] == "object"
    assert schema["required"] == ["city"]


@pytest.mark.parametrize(
    ("effect", "read_only"), [("read_only", True), ("state_change", False), ("external_side_effect", False)]
)
def test_only_a_read_only_effect_is_read_only(effect: str, *, read_only: bool) -> None:
    assert define(effect=effect).read_only is read_only


@pytest.mark.parametrize("tool_id", ["a__b", "core__get_current_time", "a1__b__c", "a__" + "b" * 61])
def test_a_namespaced_id_is_taken(tool_id: str) -> None:
    assert define(id=tool_id).id == tool_id


@pytest.mark.parametrize(
    "tool_id",
    ["", "weather", "demo_weather", "__weather", "demo__", "Demo__weather", "demo__we-ather", "a__b\n"],
)
def test_an_id_without_namespace_and_name_is_refused(tool_id: str) -> None:
    text = fault(id=tool_id)
    assert "namespace__name" in text
    assert repr(tool_id) in text


def test_an_id_too_long_for_the_model_is_refused() -> None:
    assert "at most 64 characters" in fault(id="a__" + "b" * 62)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"description": " "}, "needs a description"),
        ({"effect": "harmless"}, "unknown effect 'harmless'"),
        ({"timeout_s": 0}, "timeout_s above zero"),
        ({"timeout_s": float("nan")}, "timeout_s above zero"),
        ({"max_result_bytes": 0}, "max_result_bytes above zero"),
        ({"redact": None}, "must list in redact"),
        ({"redact": "summary"}, "must list in redact"),
        ({"redact": ("summary", "nothing")}, "lists 'nothing' in redact, but Out has no such field"),
    ],
)
def test_a_wrong_setting_is_named(changes: dict[str, Any], expected: str) -> None:
    text = fault(**changes)
    assert expected in text
    assert "'demo__weather'" in text


def test_redact_may_hide_all_and_may_name_a_computed_field() -> None:
    assert define(redact=()).redact == ()
    assert define(redact=["shout"]).redact == ("shout",)


def not_async(_args: Args, _context: ToolContext) -> ToolOutput[Out]:
    return ToolOutput("md", Out(summary="s", hidden="x"))


async def no_context(_args: Args) -> ToolOutput[Out]:
    raise AssertionError


async def three(_args: Args, _context: ToolContext, _more: int) -> ToolOutput[Out]:
    raise AssertionError


async def keyword_context(_args: Args, *, _context: ToolContext) -> ToolOutput[Out]:
    raise AssertionError


async def wrong_context(_args: Args, _context: dict[str, str]) -> ToolOutput[Out]:
    raise AssertionError


async def plain_args(_args: dict[str, str], _context: ToolContext) -> ToolOutput[Out]:
    raise AssertionError


async def list_args(_args: ListArgs, _context: ToolContext) -> ToolOutput[Out]:
    raise AssertionError


async def schemaless_args(_args: NoSchema, _context: ToolContext) -> ToolOutput[Out]:
    raise AssertionError


async def spaced_args(_args: Spaced, _context: ToolContext) -> ToolOutput[Out]:
    raise AssertionError


async def recursive_args(_args: Tree, _context: ToolContext) -> ToolOutput[Out]:
    raise AssertionError


async def no_return(_args: Args, _context: ToolContext):  # type: ignore[no-untyped-def]  # noqa: ANN201
    raise AssertionError


async def bare_output(_args: Args, _context: ToolContext) -> ToolOutput:  # type: ignore[type-arg]
    raise AssertionError


async def plain_output(_args: Args, _context: ToolContext) -> dict[str, str]:
    raise AssertionError


async def list_output(_args: Args, _context: ToolContext) -> ToolOutput[ListOut]:
    raise AssertionError


async def unresolved(_args: "Nowhere", _context: ToolContext) -> ToolOutput[Out]:  # type: ignore[name-defined]  # noqa: F821
    raise AssertionError


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (not_async, "must be an async function"),
        (no_context, "must take exactly"),
        (three, "must take exactly"),
        (keyword_context, "must take exactly"),
        (wrong_context, "must take exactly"),
        (plain_args, "must take its arguments as a pydantic BaseModel"),
        (list_args, "whose JSON schema is not an object's"),
        (schemaless_args, "which has no JSON schema"),
        (spaced_args, "with an argument that no model takes: 'the city'"),
        (recursive_args, "whose JSON schema is not an object's"),
        (no_return, "must be annotated to return ToolOutput"),
        (bare_output, "must be annotated to return ToolOutput"),
        (plain_output, "must be annotated to return ToolOutput"),
        (list_output, "which has no fields"),
        (unresolved, "annotations that cannot be resolved"),
    ],
)
def test_a_function_that_is_no_tool_is_refused(handler: object, expected: str) -> None:
    text = fault(handler)
    assert expected in text
    assert "'demo__weather'" in text
