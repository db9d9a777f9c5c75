import asyncio
from datetime import timedelta
from typing import Any, get_args

import pytest
from pydantic import BaseModel, Field, field_validator

from app.errors import Invalid
from app.events import ControlEvent, PermissionRequest, PermissionResolved
from app.executors.approvals import (
    ApprovalRules,
    Approvals,
    Decision,
    PermissionDecided,
    PermissionNotFound,
    is_less_strict,
)
from app.requests.runs import PermissionMode
from app.tools.policy import ToolCallDenied
from runtally.tools.tool import Effect, Tool, ToolContext, ToolOutput, tool
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

    def __init__(self, mode: PermissionMode = "default", *, timeout_s: float = 60) -> None:
        self.events: asyncio.Queue[ControlEvent] = asyncio.Queue()
        rules = ApprovalRules(frozenset({"external_side_effect"}), mode, timedelta(seconds=timeout_s))
        self.approvals = Approvals(self.events.put, rules)

    def call(self, effect: Effect = "external_side_effect") -> "asyncio.Task[object]":
        return asyncio.create_task(self.approvals.review(a_tool(effect), ARGS, CONTEXT))

    async def next(self) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await self.events.get()


@pytest.mark.parametrize(
    ("mode", "effect", "outcome"),
    [
        ("default", "read_only", "called"),
        ("default", "external_side_effect", "waits"),
        ("acceptEdits", "external_side_effect", "waits"),
        ("bypassPermissions", "external_side_effect", "called"),
        ("dontAsk", "external_side_effect", "denied"),
        ("dontAsk", "read_only", "called"),
        ("plan", "read_only", "called"),
        ("plan", "state_change", "denied"),
    ],
)
async def test_the_mode_decides_which_calls_wait(mode: PermissionMode, effect: Effect, outcome: str) -> None:
    readers = Readers(mode)
    call = readers.call(effect)
    if outcome == "waits":
        request = await readers.next()
        await readers.approvals.decide(request.request_id, Decision("allow"))
    if outcome == "denied":
        with pytest.raises(ToolCallDenied):
            await call
    else:
        assert await call == ARGS


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
    await readers.approvals.end()
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
