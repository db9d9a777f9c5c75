"""Runs over a CLI of ours: what becomes of answers, tools, hooks, deadlines and differences."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
import structlog

from app.events import AssistantFinal, MeterReport, TextDelta, ToolCallResult, UsageReport
from app.executors.port import AgentFailed, ExecutionFailed, RunPlan
from app.ids import AccountId, RunId, RunKey, new_uuid
from runtally.tools.tool import Tool, ToolContext, ToolOutput, tool
from tests.factories import a_plan
from tests.patience import PATIENCE_S
from tests.unit.billing.receipts.test_journal_full_disk import full_at
from tests.unit.executors.claude_agent.an_executor import a_graph, an_executor
from tests.unit.executors.claude_agent.fake_cli import FakeCli, answer
from tests.unit.tools.calling import Nothing
from tests.unit.tools.samples.weather import weather

NAME = "mcp__runtally__demo__weather"
LONG = timedelta(seconds=30)


def a_run(name: str = "r1", **fields: Any) -> RunPlan:
    run = RunKey(AccountId(new_uuid()), RunId(name))
    return a_plan(**{"run": run, "spec": a_graph(), "timeout": LONG, **fields})


def with_tools(*tools: Tool, **fields: Any) -> RunPlan:
    return a_run(spec=a_graph(tools=tuple(each.id for each in tools)), tools=tools, **fields)


async def test_an_answer_is_streamed_billed_and_final(tmp_path: Path) -> None:
    cli = FakeCli()
    async with an_executor(tmp_path, cli) as bench:
        events = await bench.run(a_run(), "what now?")

    assert [event.delta for event in events if isinstance(event, TextDelta)] == ["hello"]
    (usage,) = [event.fact for event in events if isinstance(event, UsageReport)]
    assert (usage.message_id, usage.usage.output_tokens, usage.executor_type) == ("msg_1", 20, "claude_sdk")
    assert events[-1] == AssistantFinal(content="hello", structured_output=None)
    assert cli.prompts[0]["message"]["content"] == "what now?"
    assert cli.closed
    assert bench.auth.channel is not None
    assert bench.auth.channel.exhausted_limit == "ended"
    # The SDK would pass the server's own variables on.
    assert cli.options.env == dict.fromkeys(os.environ, "")


async def test_a_cli_that_offers_more_than_was_configured_ends_the_run(tmp_path: Path) -> None:
    async with an_executor(tmp_path, FakeCli(tools=("Bash",))) as bench:
        with pytest.raises(ExecutionFailed) as failed:
            await bench.run(a_run())

    assert failed.value.outcome.error == "internal"
    assert not [event for event in bench.events.published if isinstance(event, TextDelta)]


@pytest.mark.parametrize("room", [0, 100])
async def test_a_cli_for_whose_files_there_is_no_space_leaves_none(tmp_path: Path, room: int) -> None:
    async with an_executor(tmp_path, FakeCli()) as bench:
        with full_at(room), pytest.raises(AgentFailed) as failed:
            await bench.run(a_run(spec=a_graph().model_copy(update={"system_prompt": "Work. " * 100})))
        left, is_writable = names_in(tmp_path), bench.starter.launcher.disk.is_writable

    assert (failed.value.failure, failed.value.is_silent, left) == ("not_started", True, [])
    # No further run is taken.
    assert not is_writable


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


async def test_the_model_gets_each_tool_with_its_description_and_schema(tmp_path: Path) -> None:
    found: list[dict[str, Any]] = []

    async def lists(cli: FakeCli, message: dict[str, Any]) -> None:
        found.extend((await cli.mcp("tools/list"))["tools"])
        await answer(cli, message)

    async with an_executor(tmp_path, FakeCli(lists, tools=(NAME,))) as bench:
        await bench.run(with_tools(weather))

    (tool_,) = found
    assert (tool_["name"], tool_["description"]) == ("demo__weather", "Weather of a city.")
    assert set(tool_["inputSchema"]["properties"]) == {"city", "days"}
    assert tool_["annotations"]["readOnlyHint"] is True
    assert tool_["_meta"]["anthropic/maxResultSizeChars"] == weather.max_result_bytes


async def test_a_tools_answer_goes_to_the_model_and_its_visible_part_to_clients(tmp_path: Path) -> None:
    answers: list[dict[str, Any]] = []

    async def calls_tool(cli: FakeCli, message: dict[str, Any]) -> None:
        cli.begin(message)
        answers.append(await cli.call_tool("demo__weather", "toolu_1", city="Rome"))
        cli.reply("hello")
        cli.result()

    async with an_executor(tmp_path, FakeCli(calls_tool, tools=(NAME,))) as bench:
        events = await bench.run(with_tools(weather))

    assert answers[0]["content"][0]["text"] == "Sunny in Rome"
    assert [event.result for event in events if isinstance(event, ToolCallResult)] == [{"summary": "sunny"}]


async def test_every_tool_call_that_fails_is_counted_whoever_refused_it(tmp_path: Path) -> None:
    """The CLI itself answers calls of tools that do not exist, and no hook hears of them."""

    async def fails_often(cli: FakeCli, message: dict[str, Any]) -> None:
        cli.begin(message)
        await cli.call_tool("demo__weather", "toolu_ok", city="Rome")
        for number in range(11):
            for name in ("Bash", "mcp__runtally__demo__nothing"):
                call_id = f"toolu_{name}_{number}"
                cli.tool_use(name, call_id)
                cli.tool_result(call_id, "No such tool available", is_error=True)
            await cli.call_tool("demo__weather", f"toolu_bad_{number}", town="Rome")
        cli.reply("hello")
        cli.result()

    async with an_executor(tmp_path, FakeCli(fails_often, tools=(NAME,))) as bench:
        events = await bench.run(with_tools(weather))

    assert [event.tool_failures for event in events if isinstance(event, MeterReport)] == [33]


@pytest.mark.parametrize("idle_processes", [0, 1], ids=["started for the run", "ready before"])
async def test_what_a_tool_logs_names_its_own_run(tmp_path: Path, idle_processes: int) -> None:
    found: list[Any] = []

    @tool(id="demo__who", description="Who am I?", effect="read_only", redact=())
    async def who(_args: Nothing, _context: ToolContext) -> ToolOutput[Nothing]:
        found.append(structlog.contextvars.get_contextvars().get("run_id"))
        return ToolOutput("you", Nothing())

    async def calls_tool(cli: FakeCli, message: dict[str, Any]) -> None:
        cli.begin(message)
        await cli.call_tool("demo__who", "toolu_1")
        cli.reply("hello")
        cli.result()

    clis = [FakeCli(calls_tool, tools=("mcp__runtally__demo__who",)) for _ in range(4)]
    async with an_executor(tmp_path, *clis, idle_processes=idle_processes) as bench:
        for name in ("one", "two", "three"):
            with structlog.contextvars.bound_contextvars(run_id=name):
                await bench.run(with_tools(who, run=RunKey(AccountId(new_uuid()), RunId(name))))
            if idle_processes:
                await asyncio.wait_for(clis[len(found)].connected.wait(), PATIENCE_S)

    assert found == ["one", "two", "three"]


async def test_a_process_that_is_ready_is_started_outside_of_every_run(tmp_path: Path) -> None:
    contexts: list[dict[str, Any]] = []

    class Second(FakeCli):
        async def connect(self) -> None:
            contexts.append(structlog.contextvars.get_contextvars())
            self.connected.set()

    second = Second()
    async with an_executor(tmp_path, FakeCli(), second, idle_processes=1) as bench:
        with structlog.contextvars.bound_contextvars(run_id="one", request_id="req"):
            await bench.run(a_run("one"))
        await asyncio.wait_for(second.connected.wait(), PATIENCE_S)

    assert contexts == [{}]


async def test_a_run_that_takes_too_long_is_interrupted_and_ends_as_timeout(tmp_path: Path) -> None:
    async def hangs(cli: FakeCli, message: dict[str, Any]) -> None:
        cli.begin(message)
        await cli.interrupted.wait()
        cli.result(subtype="error_during_execution", terminal_reason="aborted_streaming", is_error=True)

    cli = FakeCli(hangs)
    async with an_executor(tmp_path, cli) as bench:
        with pytest.raises(ExecutionFailed) as failed:
            await bench.run(a_run(timeout=timedelta(seconds=0.05)))

    assert failed.value.outcome == ("timeout", "timeout")
    assert cli.interrupts == 1


async def test_a_run_without_a_key_or_login_does_not_start(tmp_path: Path) -> None:
    async with an_executor(tmp_path, unavailable_reason="ANTHROPIC_API_KEY is not set") as bench:
        with pytest.raises(ExecutionFailed) as failed:
            await bench.run(a_run())

    assert failed.value.outcome.error == "provider_unavailable"


async def test_a_graph_with_native_tools_does_not_start_without_a_sandbox(tmp_path: Path) -> None:
    async with an_executor(tmp_path) as bench:
        with pytest.raises(ExecutionFailed) as failed:
            await bench.run(a_run(spec=a_graph(native_tools=("Bash",))))

    assert failed.value.outcome.error == "internal"


async def test_a_run_whose_server_stops_is_closed_and_gives_its_process_back(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def waits(cli: FakeCli, message: dict[str, Any]) -> None:
        cli.begin(message)
        asked.set()
        await asyncio.Event().wait()

    cli = FakeCli(waits)
    async with asyncio.timeout(PATIENCE_S), an_executor(tmp_path, cli) as bench:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.run, a_run())
            await asked.wait()
            tasks.cancel_scope.cancel()
        assert bench.auth.channel is not None
        assert bench.auth.channel.exhausted_limit == "ended"

    assert cli.closed
