import asyncio

from app.events import AiEvent, ToolCallResult, ToolCallStart
from app.executors.api_format.sent_attachments import MAX_CHARS
from app.executors.api_format.tool_content import ModelToolCall
from app.executors.tools.calls import ToolCalls
from app.executors.tools.turn import MOST_AT_ONCE, ToolTurn
from runtally.tools.content import ToolImage, ToolText
from runtally.tools.tool import Effect, Tool, ToolContext, ToolOutput, tool
from tests.factories import Events, a_context, a_plan
from tests.unit.gateway.calls import Billing, a_channel
from tests.unit.tools.samples.weather import Weather, WeatherArgs, weather
from tests.unit.waiting import turns, until


class Kitchen:
    """Tools that record when they begin and end."""

    def __init__(self, events: Events | None = None) -> None:
        self.happened: list[str] = []
        self.go_on = asyncio.Event()
        self.events = events or Events()

    def tool(self, tool_id: str, effect: Effect) -> Tool:
        @tool(id=tool_id, description="d", effect=effect, redact=())
        async def cook(_args: WeatherArgs, _context: ToolContext) -> ToolOutput[Weather]:
            self.happened.append(f"begin {tool_id}")
            await self.go_on.wait()
            self.happened.append(f"end {tool_id}")
            return ToolOutput(tool_id, Weather(summary="", station_id=""))

        return cook

    def turn(self, *tools: Tool, calls_shown: int = 2) -> ToolTurn:
        plan = a_plan(tools=tools)
        calls = ToolCalls(plan)
        calls.attach_run(a_context(plan), a_channel(Billing()))
        for number in range(calls_shown):
            calls.on_published(ToolCallStart(tool_call_id=f"t{number}", tool_name="x", args={}))
        return ToolTurn(calls, self.events)


class SlowEvents(Events):
    """An event sink that waits."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.until = asyncio.Event(), asyncio.Event()

    async def publish(self, event: AiEvent) -> int:
        """See the port."""
        self.reached.set()
        await self.until.wait()
        return await super().publish(event)


async def test_reading_calls_run_together_and_others_alone_and_in_order() -> None:
    kitchen = Kitchen()
    turn = kitchen.turn(
        kitchen.tool("a__read", "read_only"), kitchen.tool("a__write", "state_change"), calls_shown=4
    )
    names = ["a__read", "a__read", "a__write", "a__write"]
    uses = [ModelToolCall(f"t{index}", name, {"city": "x"}) for index, name in enumerate(names)]
    running = asyncio.create_task(turn.run(uses))
    await until(lambda: len(kitchen.happened) >= 2)
    kitchen.go_on.set()
    blocks = await running

    assert kitchen.happened[:2] == ["begin a__read"] * 2
    assert kitchen.happened[4:] == ["begin a__write", "end a__write"] * 2
    assert [block["tool_use_id"] for block in blocks] == ["t0", "t1", "t2", "t3"]


async def test_of_an_interrupted_turn_finished_results_stay_and_the_others_are_published_as_failed() -> None:
    kitchen = Kitchen()
    turn = kitchen.turn(weather, kitchen.tool("a__write", "state_change"))
    uses = [ModelToolCall("t0", weather.id, {"city": "x"}), ModelToolCall("t1", "a__write", {"city": "x"})]
    running = asyncio.create_task(turn.run(uses))
    await until(lambda: kitchen.happened)
    running.cancel()
    await asyncio.wait({running})
    finished = list(turn.finished)
    await turn.publish_unfinished()

    assert [block["tool_use_id"] for block in finished] == ["t0"]
    results = [event for event in kitchen.events.published if isinstance(event, ToolCallResult)]
    assert [(event.tool_call_id, event.is_error) for event in results] == [("t0", False), ("t1", True)]
    assert turn.failures == 1


async def test_the_images_of_one_turn_are_no_more_than_a_request_may_have() -> None:
    @tool(id="a__picture", description="d", effect="read_only", redact=())
    async def picture(_args: WeatherArgs, _context: ToolContext) -> ToolOutput[Weather]:
        image = ToolImage("image/png", "x" * (MAX_CHARS // 5))
        return ToolOutput("", Weather(summary="", station_id=""), content=(ToolText("a"), image))

    turn = Kitchen().turn(picture, calls_shown=8)
    uses = [ModelToolCall(f"t{index}", "a__picture", {"city": "x"}) for index in range(8)]
    blocks = await turn.run(uses[:7])
    again = await turn.run(uses[7:])

    kinds = [part["type"] for block in [*blocks, *again] for part in block["content"]]
    assert kinds.count("image") == 6
    assert "Request fewer at a time" in str(blocks)
    assert "Request fewer at a time" not in str(again)


async def test_arguments_that_are_no_json_object_are_an_error_for_the_model() -> None:
    turn = Kitchen().turn(weather)

    (block,) = await turn.run([ModelToolCall("t0", weather.id, "{")])

    assert block["is_error"]
    assert "not valid JSON" in block["content"][0]["text"]


async def test_only_so_many_calls_run_at_once() -> None:
    kitchen = Kitchen()
    turn = kitchen.turn(kitchen.tool("a__read", "read_only"), calls_shown=MOST_AT_ONCE * 3)
    uses = [ModelToolCall(f"t{index}", "a__read", {"city": "x"}) for index in range(MOST_AT_ONCE * 3)]
    running = asyncio.create_task(turn.run(uses))
    await until(lambda: len(kitchen.happened) >= MOST_AT_ONCE)
    await turns(100)
    assert len(kitchen.happened) == MOST_AT_ONCE
    kitchen.go_on.set()

    assert len(await running) == len(uses)


async def test_an_interrupt_loses_no_result_of_a_call_that_has_ended() -> None:
    events = SlowEvents()
    kitchen = Kitchen(events)
    turn = kitchen.turn(kitchen.tool("a__write", "state_change"), calls_shown=1)
    kitchen.go_on.set()
    running = asyncio.create_task(turn.run([ModelToolCall("t0", "a__write", {"city": "x"})]))
    await events.reached.wait()
    running.cancel()
    await asyncio.sleep(0)
    events.until.set()
    await asyncio.wait({running})

    assert running.cancelled()
    assert [(block["tool_use_id"], block["is_error"]) for block in turn.finished] == [("t0", False)]
    await turn.publish_unfinished()
    results = [event for event in events.published if isinstance(event, ToolCallResult)]
    assert [result.is_error for result in results] == [False]
