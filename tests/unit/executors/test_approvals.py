import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import pytest
from pydantic import BaseModel, Field, field_validator

from app.errors import Invalid
from app.events import ControlEvent, PermissionRequest, PermissionResolved
from app.executors.approvals import ApprovableTool, Approvals, Permissions, RunDenied
from app.executors.claude_agent.tools.builtin_tools import CliTool
from app.executors.waiting.port import UnstoredWaits
from app.executors.waiting.records import Decision, PermissionDecided, PermissionNotFound
from app.graphs.rules.evaluation import CallRules, Conditions
from app.graphs.rules.modes import is_less_strict
from app.graphs.rules.spec import Action, ToolRule
from app.platform.json_schema.checker import SchemaChecker
from app.requests.run_request import PermissionMode
from app.tools.policy import ToolCallDenied
from runtally.tools.tool import Effect, Tool, ToolContext, ToolOutput, tool
from tests.factories import asking
from tests.patience import PATIENCE_S
from tests.unit.tools.calling import CONTEXT, Nothing

ARGS = {"to": "bob@example.org"}


class Mail(BaseModel):
    to: str = Field(pattern="@")

    @field_validator("to")
    @classmethod
    def _is_known(cls, to: str) -> str:
        # A mistake of the tool's author: an unknown address is a KeyError, not a ValueError.
        return {"bob@example.org": to, "eve@example.org": to}[to]


def a_tool(effect: Effect = "external_side_effect") -> Tool:
    @tool(id="test__mail", description="Sends.", effect=effect, redact=())
    async def mail(_args: Mail, _context: ToolContext) -> ToolOutput[Nothing]:
        return ToolOutput(markdown="sent", structured=Nothing())

    return mail


class Readers:
    """What readers see of a run's approvals."""

    def __init__(self, *, timeout_s: float = PATIENCE_S, rules: CallRules | None = None) -> None:
        self.events: asyncio.Queue[ControlEvent] = asyncio.Queue()
        permissions = asking("external_side_effect", timeout_s=timeout_s)
        if rules is not None:
            permissions = replace(permissions, rules=rules)
        self.approvals = Approvals(self.events.put, permissions, UnstoredWaits())

    def call(self, effect: Effect = "external_side_effect") -> "asyncio.Task[object]":
        return asyncio.create_task(self.approvals.review(a_tool(effect), ARGS, CONTEXT))

    async def next(self) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await self.events.get()


TOOLS: tuple[ApprovableTool, ...] = (
    *(a_tool("read_only"), CliTool("Write"), CliTool("Bash")),
    a_tool("external_side_effect"),
)
OUTCOMES: dict[PermissionMode, dict[Action | None, str]] = {
    # For a call that reads, edits a file of the workspace, changes something else, acts outside.
    "plan": {None: "called denied denied denied", "ask": "waits denied denied denied"},
    "dontAsk": {None: "called called called called", "ask": "denied denied denied denied"},
    "default": {None: "called called called called", "ask": "waits waits waits waits"},
    "acceptEdits": {None: "called called called called", "ask": "waits called waits waits"},
    "bypassPermissions": {None: "called called called called", "ask": "called called called called"},
}
RULES: tuple[Action | None, ...] = (None, "allow", "ask", "deny")
CELLS = [
    (mode, tool, do, "denied" if do == "deny" else outcome)
    for mode, by_rule in OUTCOMES.items()
    for do in RULES
    for tool, outcome in zip(TOOLS, by_rule["ask" if do == "ask" else None].split(), strict=True)
]
"""The table in docs/api/control.md."""


@pytest.mark.parametrize(("mode", "tool", "do", "outcome"), CELLS)
async def test_mode_effect_and_rule_decide_about_a_call(
    mode: PermissionMode, tool: ApprovableTool, do: Action | None, outcome: str
) -> None:
    events: asyncio.Queue[Any] = asyncio.Queue()
    rules = () if do is None else (ToolRule(tool=tool.id, do=do),)
    # The run changes to the mode before the call.
    approvals = Approvals(
        events.put, Permissions(CallRules(rules), timeout=timedelta(seconds=PATIENCE_S)), UnstoredWaits()
    )
    approvals.mode = mode
    call = asyncio.create_task(approvals.review(tool, ARGS, CONTEXT))
    if outcome == "waits":
        async with asyncio.timeout(PATIENCE_S):
            request = await events.get()
        await approvals.decide(request.request_id, Decision("allow"))

    if outcome == "denied":
        with pytest.raises(ToolCallDenied):
            await call
    else:
        assert await call == ARGS
    assert events.qsize() == (outcome == "waits")


async def test_a_person_cannot_change_a_call_into_one_that_a_rule_denies() -> None:
    async with SchemaChecker(workers=1, check_s=5.0) as checker:
        to_eve = ToolRule(tool="test__*", when="args.to.startsWith('eve@')", do="deny", message="Not to her.")
        rules = CallRules((to_eve, ToolRule(tool="test__mail", do="ask")), Conditions(checker.pool))
        readers = Readers(rules=rules)
        call = readers.call()
        request = await readers.next()
        await readers.approvals.decide(request.request_id, Decision("allow", {"to": "eve@example.org"}))

        with pytest.raises(ToolCallDenied, match=r"Not to her\."):
            await call


@pytest.mark.parametrize("by", ["a rule", "a person"])
async def test_a_denial_may_end_the_run(by: str) -> None:
    stop = ToolRule(tool="external_side_effect", do="deny", stop=True)
    readers = Readers(rules=CallRules((stop,)) if by == "a rule" else None)
    call = readers.call()
    if by == "a person":
        request = await readers.next()
        await readers.approvals.decide(request.request_id, Decision("deny", stop=True))

    with pytest.raises(RunDenied):
        await call


async def test_readers_see_the_request_and_the_decision() -> None:
    readers = Readers()
    call = readers.call()
    request = await readers.next()
    assert isinstance(request, PermissionRequest)
    assert (request.tool_name, request.args) == ("test__mail", ARGS)

    changed = {"to": "eve@example.org"}
    await readers.approvals.decide(request.request_id, Decision("allow", changed))

    assert await call == changed
    resolved = await readers.next()
    assert isinstance(resolved, PermissionResolved)
    assert (resolved.decision, resolved.reason, resolved.args) == ("allow", "decided", changed)


async def test_a_denial_tells_the_model_why() -> None:
    readers = Readers()
    call = readers.call()
    request = await readers.next()
    await readers.approvals.decide(request.request_id, Decision("deny", message="Not today."))
    with pytest.raises(ToolCallDenied, match=r"Not today\."):
        await call


async def test_a_call_without_a_decision_is_denied_in_time() -> None:
    readers = Readers(timeout_s=0.01)
    with pytest.raises(ToolCallDenied):
        await readers.call()
    await readers.next()
    assert (await readers.next()).reason == "expired"


async def test_the_first_decision_counts() -> None:
    readers = Readers()
    call = readers.call()
    request_id = (await readers.next()).request_id
    await readers.approvals.decide(request_id, Decision("allow"))
    await readers.approvals.decide(request_id, Decision("allow"))
    with pytest.raises(PermissionDecided):
        await readers.approvals.decide(request_id, Decision("deny"))
    with pytest.raises(PermissionNotFound):
        await readers.approvals.decide("another", Decision("allow"))
    assert await call == ARGS


@pytest.mark.parametrize(
    ("args", "field"),
    [({"to": "nobody"}, "args.to"), ({}, "args.to"), ({"to": "mallory@example.org"}, "args")],
    ids=["invalid", "missing", "the tool's own check fails"],
)
async def test_arguments_the_tool_does_not_accept_are_refused_and_the_call_waits_on(
    args: dict[str, Any], field: str
) -> None:
    readers = Readers()
    call = readers.call()
    request_id = (await readers.next()).request_id

    with pytest.raises(Invalid) as refused:
        await readers.approvals.decide(request_id, Decision("allow", args))

    assert refused.value.errors[0].field == field
    assert not call.done()
    await readers.approvals.decide(request_id, Decision("allow"))
    assert await call == ARGS


async def test_the_end_of_a_run_denies_what_waits() -> None:
    readers = Readers()
    call = readers.call()
    await readers.next()
    await readers.approvals.calls.end()
    with pytest.raises(ToolCallDenied):
        await call
    assert (await readers.next()).reason == "run_stopped"


def test_modes_are_ordered_by_how_much_they_allow() -> None:
    order: list[PermissionMode] = ["plan", "dontAsk", "default", "acceptEdits", "bypassPermissions"]
    assert set(order) == set(get_args(PermissionMode))
    for index, mode in enumerate(order):
        assert [is_less_strict(mode, than=other) for other in order] == [
            index > place for place in range(len(order))
        ]
