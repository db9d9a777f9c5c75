"""What depends on the graph alone is computed when it loads; no run computes it, with either executor."""

import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import pytest
from pydantic import BaseModel, Field

from app.billing.prices.price_list import PriceList
from app.executors.port import GraphExecutor, RunContext
from app.graphs.catalog import GraphCatalog
from app.ids import AccountId, ApiKeyId, RunId, RunKey, new_uuid
from app.models.registry import ModelRegistry
from app.requests.messages import Message
from app.requests.run_request import GraphRunRequest
from app.runs.planner import RunPlanner
from app.simulator.script import Answer, ApiRequest, Reply, Text
from app.tools.catalog import ToolCatalog
from runtally.tools.tool import Tool, ToolContext, definition_of, tool
from tests.contracts.messages_executor import a_messages_executor
from tests.factories import Events, a_control
from tests.patience import PATIENCE_S
from tests.unit.executors.claude_agent.an_executor import a_graph, an_executor
from tests.unit.executors.claude_agent.fake_cli import FakeCli

COMPUTED: tuple[Any, ...] = (definition_of, BaseModel.model_json_schema)
Opened: TypeAlias = AbstractAsyncContextManager[tuple[GraphExecutor, list[str]]]


def looks_up(number: int) -> Tool:
    class Arguments(BaseModel):
        city: str = Field(description=f'"City" {{{number}}}')

    @tool(id=f"demo__look_up_{number}", description=f"Looks {number} up.", effect="read_only")
    async def look_up(args: Arguments, _context: ToolContext) -> str:
        return args.city

    return look_up


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """The calls of `COMPUTED` while the body runs."""
    names = {getattr(each, "__func__", each).__code__: each.__qualname__ for each in COMPUTED}
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code in names:
            calls[names[frame.f_code]] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


@asynccontextmanager
async def claude_agents(tmp_path: Path) -> AsyncIterator[tuple[GraphExecutor, list[str]]]:
    names: list[str] = []

    async def list_tools(cli: FakeCli, message: dict[str, Any]) -> None:
        names.extend(each["name"] for each in (await cli.mcp("tools/list"))["tools"])
        cli.begin(message)
        cli.reply("hello")
        cli.result()

    clis = [FakeCli(list_tools, tools=("mcp__runtally__demo__look_up_1",)) for _ in range(2)]
    async with an_executor(tmp_path, *clis) as bench:
        yield bench.executor, names


@asynccontextmanager
async def messages(_path: Path) -> AsyncIterator[tuple[GraphExecutor, list[str]]]:
    names: list[str] = []

    async def respond(request: ApiRequest) -> Answer:
        names.extend(each["name"] for each in request.body["tools"])
        return Reply([Text("hello")])

    async with a_messages_executor(respond) as opened:
        yield opened[0], names


@pytest.mark.parametrize("executor_of", [claude_agents, messages])
async def test_no_run_describes_the_tools_of_its_graph(
    tmp_path: Path, executor_of: Callable[[Path], Opened]
) -> None:
    with counted_calls() as at_load:
        tools = [looks_up(number) for number in range(2)]
    graph = a_graph(tools=tuple(each.id for each in tools))
    models = ModelRegistry("haiku", is_priced=lambda _: True)
    planner = RunPlanner(
        GraphCatalog([graph]), models, ToolCatalog(tools), PriceList(), timedelta(seconds=PATIENCE_S)
    )
    chosen = tools[1].id
    request = GraphRunRequest.of(
        graph_id=graph.id, messages=[Message.of(role="user", content="hi")], tool_ids=[chosen]
    )

    async with executor_of(tmp_path) as (executor, names):
        with counted_calls() as calls:
            for number in range(2):
                run = RunKey(AccountId(new_uuid()), RunId(f"run-{number}"))
                plan = planner.plan(run, request, api_key_id=ApiKeyId(new_uuid()), request_id=None)
                await executor.run(request, RunContext(plan, a_control(), Events()))

    assert at_load == {definition_of.__qualname__: 2, "BaseModel.model_json_schema": 2}
    assert calls == {}
    # A request chooses among the definitions.
    assert names == [chosen, chosen]
    definition = {"name": chosen, "description": "Looks 1 up.", "input_schema": tools[1].input_schema}
    assert json.loads(tools[1].definition) == definition
