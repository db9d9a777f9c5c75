import asyncio
from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    computed_field,
    field_validator,
    model_serializer,
)
from pydantic.alias_generators import to_camel
from structlog.testing import capture_logs

from app.tools.policy import ToolPolicy
from app.tools.runner import ToolRunner
from runtally.tools.result import ToolResult
from runtally.tools.tool import Tool, ToolContext, ToolFailed, ToolOutput, tool
from tests.unit.tools.calling import CONTEXT

HIDDEN = "hunter2-do-not-tell"


class Args(BaseModel):
    city: str = "Rome"
    days: int = 1


class Out(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)

    short_summary: str = "sunny"
    station: str = Field(default=HIDDEN, serialization_alias="stationId")

    @computed_field(alias="letterCount")
    def letters(self) -> int:
        return len(self.short_summary)


Answer = Callable[[], Awaitable[Any]]


def a_tool(answer: Answer | None = None, **settings: Any) -> Tool:
    async def handler(_args: Args, _context: ToolContext) -> ToolOutput[Out]:
        if answer is None:
            return ToolOutput("It is sunny.", Out())
        output: ToolOutput[Out] = await answer()
        return output

    defaults: dict[str, Any] = {"redact": ("short_summary",)}
    return tool(id="demo__tool", description="A tool.", effect="read_only", **(defaults | settings))(handler)


def a_runner(made: Tool, *, allowed: bool = True) -> ToolRunner:
    return ToolRunner({made.id: made}, ToolPolicy(frozenset({made.id} if allowed else ())))


async def run(made: Tool, args: object = None) -> ToolResult:
    return await a_runner(made).run(made.id, {} if args is None else args, CONTEXT)


def assert_failed(result: ToolResult, code: str) -> None:
    assert (result.code, result.visible, result.is_error) == (code, {"error": code}, True)
    assert HIDDEN not in result.markdown


async def test_the_model_gets_the_markdown_and_the_client_the_allowed_fields() -> None:
    result = await run(a_tool())
    assert result == ToolResult("It is sunny.", {"shortSummary": "sunny"}, None)
    assert not result.is_error


async def test_an_empty_allowlist_hides_all() -> None:
    assert (await run(a_tool(redact=()))).visible == {}


async def test_fields_are_named_as_the_model_writes_them() -> None:
    result = await run(a_tool(redact=("station", "letters")))
    assert result.visible == {"stationId": HIDDEN, "letterCount": 5}


class Chatty(Out):
    @model_serializer(mode="wrap")
    def _dump_all(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {**write(self), "leak": self.station}


class Mute(Out):
    @model_serializer(mode="plain")
    def _dump_word(self) -> str:
        return "shortSummary " + self.station


async def test_a_serializer_of_the_models_own_cannot_show_more() -> None:
    async def handler(_args: Args, _context: ToolContext) -> ToolOutput[Chatty]:
        return ToolOutput("md", Chatty())

    made = tool(id="demo__x", description="d", effect="read_only", redact=("short_summary",))(handler)
    assert (await run(made)).visible == {"shortSummary": "sunny"}


async def test_a_structured_output_that_is_no_object_fails() -> None:
    async def handler(_args: Args, _context: ToolContext) -> ToolOutput[Mute]:
        return ToolOutput("md", Mute())

    made = tool(id="demo__x", description="d", effect="read_only", redact=("short_summary",))(handler)
    assert_failed(await run(made), "failed")


async def test_fields_of_a_subclass_stay_hidden() -> None:
    class More(Out):
        extra: str = HIDDEN

    async def answer() -> ToolOutput[Out]:
        return ToolOutput("md", More())

    assert (await run(a_tool(answer))).visible == {"shortSummary": "sunny"}


async def test_a_text_is_for_the_model_alone() -> None:
    async def handler(_args: Args, _context: ToolContext) -> str:
        return "It is sunny."

    result = await run(tool(id="demo__x", description="d", effect="read_only")(handler))

    assert (result.markdown, result.visible) == ("It is sunny.", {})


@pytest.mark.parametrize("rendered", ["It is sunny.", ""])
async def test_the_model_gets_a_value_as_it_renders_itself_or_as_json(rendered: str) -> None:
    class Weather(BaseModel):
        sky: str = Field(serialization_alias="theSky")
        station: int

        def render(self) -> str:
            return rendered

    async def handler(_args: Args, _context: ToolContext) -> Weather:
        return Weather(sky="sunny", station=7)

    result = await run(tool(id="demo__x", description="d", effect="read_only", redact=("sky",))(handler))

    assert result.markdown == (rendered or '{"theSky":"sunny","station":7}')
    assert result.visible == {"theSky": "sunny"}


async def test_the_tool_hears_who_calls() -> None:
    contexts: list[ToolContext] = []

    async def handler(_args: Args, context: ToolContext) -> ToolOutput[Out]:
        contexts.append(context)
        return ToolOutput("md", Out())

    await run(tool(id="demo__x", description="d", effect="read_only", redact=())(handler))
    assert contexts == [CONTEXT]


async def test_an_unknown_tool_is_an_answer_not_an_exception() -> None:
    assert_failed(await a_runner(a_tool()).run("demo__other", {}, CONTEXT), "unknown_tool")


async def test_a_run_that_used_up_its_limits_calls_no_tool() -> None:
    made = a_tool()
    policy = ToolPolicy(frozenset({made.id}), lambda: "This run's time is up.")

    result = await ToolRunner({made.id: made}, policy).run(made.id, {}, CONTEXT)

    assert_failed(result, "policy_denied")
    assert result.markdown == "This run's time is up."


async def test_a_tool_the_policy_does_not_name_is_never_called() -> None:
    called: list[bool] = []

    async def answer() -> ToolOutput[Out]:
        called.append(True)
        return ToolOutput("md", Out())

    made = a_tool(answer)
    assert_failed(await a_runner(made, allowed=False).run(made.id, {}, CONTEXT), "policy_denied")
    assert not called


@pytest.mark.parametrize("args", [{"days": HIDDEN}, [HIDDEN], HIDDEN, 3, {"city": None}])
async def test_wrong_arguments_are_explained_without_their_values(args: object) -> None:
    result = await run(a_tool(), args)
    assert_failed(result, "invalid_args")
    assert result.markdown.startswith("The arguments are not valid. ")


async def test_every_wrong_field_is_named() -> None:
    result = await run(a_tool(), {"days": "many", "city": 3})
    assert "days: must be an integer" in result.markdown
    assert "city: must be a string" in result.markdown


@pytest.mark.parametrize("args", [{"city": "\ud800"}, {"city": object()}])
async def test_arguments_that_are_not_json_are_wrong(args: object) -> None:
    assert_failed(await run(a_tool(), args), "invalid_args")


class StrictArgs(BaseModel):
    model_config = ConfigDict(strict=True)

    day: date


async def test_a_strict_model_takes_what_json_can_say() -> None:
    async def handler(args: StrictArgs, _context: ToolContext) -> ToolOutput[Out]:
        return ToolOutput(args.day.isoformat(), Out())

    made = tool(id="demo__x", description="d", effect="read_only", redact=())(handler)
    assert (await run(made, {"day": "2026-11-21"})).markdown == "2026-11-21"


class FragileArgs(BaseModel):
    city: str

    @field_validator("city")
    @classmethod
    def _breaks(cls, city: str) -> str:
        raise RuntimeError(HIDDEN + city)


async def test_a_validator_that_breaks_is_a_failure_of_the_tool() -> None:
    async def handler(_args: FragileArgs, _context: ToolContext) -> ToolOutput[Out]:
        return ToolOutput("md", Out())

    made = tool(id="demo__x", description="d", effect="read_only", redact=())(handler)
    assert_failed(await run(made, {"city": "Rome"}), "failed")


@pytest.mark.parametrize("error", [RuntimeError(HIDDEN), TimeoutError(HIDDEN), SystemExit(HIDDEN)])
async def test_an_exception_is_logged_and_its_text_kept_from_everyone(error: BaseException) -> None:
    async def answer() -> ToolOutput[Out]:
        raise error

    with capture_logs() as logs:
        result = await run(a_tool(answer))
    assert_failed(result, "failed")
    assert result.markdown == "The tool failed."
    assert [(entry["tool_id"], entry["tool_call_id"], entry["exc_info"]) for entry in logs] == [
        ("demo__tool", "call-1", True)
    ]


async def test_a_tool_that_fails_on_purpose_tells_the_model_why() -> None:
    async def answer() -> ToolOutput[Out]:
        raise ToolFailed("the station is closed")

    result = await run(a_tool(answer))
    assert_failed(result, "failed")
    assert result.markdown == "the station is closed"


async def test_a_refusal_is_logged_with_its_code() -> None:
    with capture_logs() as logs:
        await run(a_tool(), {"days": "many"})
    assert [(entry["code"], entry["log_level"]) for entry in logs] == [("invalid_args", "warning")]


async def test_a_tool_that_takes_too_long_is_stopped() -> None:
    stopped: list[bool] = []

    async def answer() -> ToolOutput[Out]:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)
        raise AssertionError

    result = await run(a_tool(answer, timeout_s=0.01))
    assert_failed(result, "timeout")
    assert "0.01 seconds" in result.markdown
    assert stopped


async def test_an_error_while_being_stopped_is_still_a_timeout() -> None:
    async def answer() -> ToolOutput[Out]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError(HIDDEN) from None
        raise AssertionError

    assert_failed(await run(a_tool(answer, timeout_s=0.01)), "timeout")


async def test_a_cancellation_passes_through_tool_and_runner() -> None:
    inside = asyncio.Event()
    stopped: list[bool] = []

    async def answer() -> ToolOutput[Out]:
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)
        raise AssertionError

    call = asyncio.create_task(run(a_tool(answer)))
    await inside.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert stopped


async def test_awaiting_something_cancelled_is_a_failure_not_a_cancellation() -> None:
    async def answer() -> ToolOutput[Out]:
        gone: asyncio.Future[ToolOutput[Out]] = asyncio.get_running_loop().create_future()
        gone.cancel()
        return await gone

    assert_failed(await run(a_tool(answer)), "failed")


class Other(BaseModel):
    short_summary: str = HIDDEN


@pytest.mark.parametrize(
    "output",
    [
        None,
        "text",
        Other(),
        ToolOutput("md", Other()),
        ToolOutput(None, Out()),  # type: ignore[arg-type]
        ToolOutput("\ud800", Out()),
        ToolOutput("md", Out.model_construct(short_summary=b"bytes")),  # type: ignore[arg-type]
    ],
)
async def test_an_output_that_is_not_what_was_declared_fails(output: Any) -> None:
    async def answer() -> Any:
        return output

    assert_failed(await run(a_tool(answer)), "failed")


@pytest.mark.parametrize(("letters", "code"), [(5, None), (6, "too_large")])
async def test_the_size_of_the_markdown_is_counted_in_bytes(letters: int, code: str | None) -> None:
    async def answer() -> ToolOutput[Out]:
        return ToolOutput("é" * letters, Out())

    result = await run(a_tool(answer, redact=(), max_result_bytes=10))
    assert result.code == code


async def test_what_clients_see_is_bounded_too() -> None:
    async def answer() -> ToolOutput[Out]:
        return ToolOutput("short", Out(short_summary="x" * 100))

    result = await run(a_tool(answer, max_result_bytes=50))
    assert_failed(result, "too_large")
    assert "50 bytes" in result.markdown
