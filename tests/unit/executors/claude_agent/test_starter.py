"""Which runs of a conversation are served by the process of the run before."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from app.conversations.records import Conversation, TranscriptEntry
from app.executors.claude_agent.launching.launcher import CliLauncher
from app.executors.claude_agent.launching.started_cli import StartedCli
from app.executors.claude_agent.process.cli import Cli
from app.executors.claude_agent.starter import CliStarter
from app.executors.port import ExecutionFailed, RunPlan
from app.executors.tools.client_tools import described_client_tools
from app.ids import AccountId, ApiKeyId, RunId, RunKey, new_uuid
from app.platform.server.disk import Disk
from app.requests.client_tools import ClientTool
from app.requests.messages import Message
from app.requests.run_request import GraphRunRequest
from app.usage.records import Attribution
from tests.factories import a_conversation, a_plan, schemas_of
from tests.unit.executors.claude_agent.an_executor import OwnAuth
from tests.unit.executors.claude_agent.fake_cli import FakeCli
from tests.unit.executors.claude_agent.test_sdk_session import Store, line

ADA = AccountId(new_uuid())
CHAT = a_conversation(ADA)
KEY, ANOTHER_KEY = (Attribution(ApiKeyId(new_uuid()), "claude_agents:planner", None) for _ in range(2))


@dataclass(slots=True)
class Bench:
    """A starter that keeps processes, and a stored conversation."""

    starter: CliStarter
    store: Store
    clis: list[FakeCli] = field(default_factory=list)

    async def turn(
        self, plan: RunPlan, text: str = "hello", *, clean: bool = True, earlier: str | None = None
    ) -> StartedCli:
        """A run of the conversation to its end."""
        past = [] if earlier is None else [Message(role="user", content=earlier)]
        messages = [*past, Message(role="user", content=text)]
        request = GraphRunRequest(graphId=plan.spec.id, messages=messages)
        cli, prompt = await self.starter.start(request, plan)
        cli.process.send(str(new_uuid()), prompt.content)
        _ = [message async for message in cli.process.messages()]
        self.starter.release(cli, plan, clean=clean)
        return cli


@asynccontextmanager
async def a_starter(tmp_path: Path) -> AsyncIterator[Bench]:
    clis: list[FakeCli] = []

    def new_client(options: Any) -> Any:
        clis.append(FakeCli())
        return clis[-1].client(options)

    store = Store(TranscriptEntry(line("user", "one", "u1"), "r0"))
    launcher = CliLauncher(Cli(Path("/no/cli")), Disk(tmp_path), OwnAuth(), store, new_client=new_client)
    starter = CliStarter(launcher, idle_processes=4, max_idle_s=600)
    try:
        yield Bench(starter, store, clis)
    finally:
        await starter.aclose()


def a_turn(conversation: Conversation = CHAT, **fields: Any) -> RunPlan:
    return a_plan(conversation=conversation, attribution=KEY, **fields)


async def test_a_conversation_keeps_its_process_as_long_as_nothing_changes(tmp_path: Path) -> None:
    async with a_starter(tmp_path) as bench:
        first = await bench.turn(a_turn(), "two")
        for text in ("three", "four"):
            assert await bench.turn(a_turn(), text) is first
        assert bench.starter.counts() == {"ready": 0, "parked": 1, "starting": 0, "busy": 0}
        # Also if the client posts what came before; then the transcript is read.
        assert await bench.turn(a_turn(), "five", earlier="one") is first

    said = [prompt["message"]["content"] for prompt in bench.clis[0].prompts]
    assert said == ["two", "three", "four", "five"]
    assert (len(bench.clis), bench.clis[0].closed) == (1, True)


def with_tool(plan: RunPlan, name: str, schema: dict[str, Any] | None = None) -> RunPlan:
    """The plan of a run that brings a tool of its client."""
    tool = ClientTool(name=name, inputSchema=schema or {})
    plan = replace(plan, client_tools=(tool,), schemas=schemas_of(tool))
    return replace(plan, tools=(*plan.tools, *described_client_tools(plan)))


CHANGES: dict[str, Callable[[RunPlan], RunPlan]] = {
    "launch": lambda plan: replace(plan, model="claude-haiku-5-5"),
    "key": lambda plan: replace(plan, attribution=ANOTHER_KEY),
    "attempt": lambda plan: replace(plan, attempt=1),
    "session": lambda plan: replace(plan, conversation=replace(CHAT, session_id=new_uuid())),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_anything_else_needs_another_process(tmp_path: Path, change: str) -> None:
    async with a_starter(tmp_path) as bench:
        first = await bench.turn(a_turn())
        second = await bench.turn(CHANGES[change](a_turn()))

        assert second is not first
        await first.process.exited.wait()


async def test_equal_client_tools_keep_the_process(tmp_path: Path) -> None:
    async with a_starter(tmp_path) as bench:
        first = await bench.turn(with_tool(a_turn(), "pick"))
        second = await bench.turn(with_tool(a_turn(), "pick"))
        third = await bench.turn(with_tool(a_turn(), "pick", {"title": "Another"}))

        assert second is first
        assert third is not first


async def test_a_conversation_that_has_gone_on_elsewhere_needs_another_process(tmp_path: Path) -> None:
    async with a_starter(tmp_path) as bench:
        first = await bench.turn(a_turn())
        bench.store.kept.append(TranscriptEntry(line("user", "elsewhere", "u2"), "r9"))
        second = await bench.turn(a_turn())
        bench.store.kept.append(TranscriptEntry(line("assistant", "again", "u3"), "r9"))
        bench.store.kept.append(TranscriptEntry(line("user", "again", "u4"), "r9"))
        third = await bench.turn(a_turn(), "next", earlier="again")

        assert len({id(each) for each in (first, second, third)}) == 3
        await first.process.exited.wait()


async def test_another_conversation_has_another_process(tmp_path: Path) -> None:
    async with a_starter(tmp_path) as bench:
        first = await bench.turn(a_turn())
        others = [a_conversation(ADA, "another"), a_conversation(AccountId(new_uuid()), CHAT.state_key)]
        for other in others:
            run = RunKey(other.account_id, RunId("r1"))
            assert await bench.turn(a_turn(other, run=run)) is not first
        assert await bench.turn(a_turn()) is first


async def test_a_run_that_did_not_end_well_takes_its_process_with_it(tmp_path: Path) -> None:
    async with a_starter(tmp_path) as bench:
        first = await bench.turn(a_turn(), clean=False)
        await first.process.exited.wait()

        assert await bench.turn(a_turn()) is not first


async def test_a_history_that_contradicts_ends_the_parked_process_too(tmp_path: Path) -> None:
    async with a_starter(tmp_path) as bench:
        first = await bench.turn(a_turn())
        with pytest.raises(ExecutionFailed):
            await bench.turn(a_turn(), "next", earlier="never said")

        await first.process.exited.wait()
