"""A person allows a tool for the rest of a conversation: which calls that is about."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.auth.records import KeyRecord
from app.conversations.grants.service import RunGrants
from app.errors import Invalid
from app.events import ControlEvent, PermissionRequest, PermissionResolved
from app.executors.approvals import Approvals, Permissions
from app.executors.waiting.port import UnstoredWaits
from app.executors.waiting.records import Decision
from app.graphs.rules.evaluation import CallRules
from app.graphs.rules.spec import ToolRule
from app.ids import RunId, RunKey
from app.platform.db import Database
from app.requests.client_tools import client_tool_id
from app.requests.principal import Principal
from app.requests.run_request import PermissionMode
from app.runs.conversations.service import GrantNotFound
from app.tools.policy import ToolCallDenied
from runtally.tools.tool import Tool
from tests.factories import an_account
from tests.integration.conversations import KEY, a_turn, conversations_over, end_run
from tests.integration.run_process import GRAPH
from tests.patience import PATIENCE_S
from tests.unit.tools.calling import CONTEXT, a_tool

OTHER_GRAPH = "claude_agents:other"


MAIL = "office__mail"
ASKED = ToolRule(tool="*", do="ask")


class Run:
    """A run's approvals, and what its readers see of them."""

    def __init__(self, grants: RunGrants | None, *rules: ToolRule, mode: PermissionMode = "default") -> None:
        self.events: asyncio.Queue[ControlEvent] = asyncio.Queue()
        permissions = Permissions(
            CallRules(rules or (ASKED,)), mode, timedelta(seconds=PATIENCE_S), grants=grants
        )
        self.approvals = Approvals(self.events.put, permissions, UnstoredWaits())

    def call(self, called: Tool | None = None) -> "asyncio.Task[object]":
        return asyncio.create_task(
            self.approvals.review(called or a_tool(MAIL, "state_change"), {"to": "bob"}, CONTEXT)
        )

    async def next(self) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await self.events.get()

    async def asked(self, called: Tool | None = None) -> PermissionRequest:
        """The request of a call that waits."""
        self.call(called)
        request = await self.next()
        assert isinstance(request, PermissionRequest)
        return request


class Conversation:
    """A conversation of an account, and the key that decides."""

    def __init__(self, database: Database, record: KeyRecord) -> None:
        self.database, self.record = database, record
        self.account_id, self.key = record.account_id, record.id

    def grants(self, *, state_key: str = KEY, graph: str = GRAPH) -> RunGrants:
        return RunGrants(self.database, self.account_id, state_key, graph)

    async def allow(self, run: Run, request: PermissionRequest) -> None:
        await run.approvals.decide(request.request_id, Decision("allow", grant_by=self.key))


@pytest.fixture
async def conversation(database: Database) -> Conversation:
    key = await an_account(database)
    await a_turn(database, key, "r1", ended=False)
    return Conversation(database, key)


async def test_later_calls_of_the_tool_are_allowed_and_readers_see_why(conversation: Conversation) -> None:
    run = Run(conversation.grants())
    request = await run.asked()
    await conversation.allow(run, request)
    decided = await run.next()
    later = [run, Run(conversation.grants())]
    allowed = [await each.call() for each in later]
    shown = [await each.next() for each in later]

    assert (request.grantable, decided.decision, decided.reason) == (True, "allow_conversation", "decided")
    # The arguments are the model's own: a grant has none.
    assert allowed == [{"to": "bob"}] * 2
    for event in shown:
        assert isinstance(event, PermissionResolved)
        assert (event.decision, event.reason) == ("allow", "granted")
        assert event.tool_call_id == CONTEXT.tool_call_id


async def test_calls_that_wait_by_then_are_allowed_at_once(conversation: Conversation) -> None:
    run = Run(conversation.grants())
    calls = [run.call(), run.call(), run.call(a_tool("office__other"))]
    requests = [await run.next() for _ in calls]
    first = next(each for each in requests if each.tool_name == MAIL)
    await conversation.allow(run, first)
    resolved = [await run.next(), await run.next()]

    assert [await call for call in calls[:2]] == [{"to": "bob"}] * 2
    assert sorted((each.decision, each.reason) for each in resolved) == [
        ("allow", "granted"),
        ("allow_conversation", "decided"),
    ]
    assert not calls[2].done()
    # A client that answers both at once has not decided anything else.
    for request in requests:
        if request.tool_name == "office__mail":
            await run.approvals.decide(request.request_id, Decision("allow"))
    await run.approvals.calls.end()


async def test_a_grant_is_for_one_conversation_and_graph_and_for_one_tool(
    conversation: Conversation, database: Database
) -> None:
    run = Run(conversation.grants())
    await conversation.allow(run, await run.asked())
    other = await an_account(database, "other")
    elsewhere: Sequence[tuple[RunGrants | None, Tool]] = (
        (conversation.grants(state_key="chat-2"), a_tool(MAIL)),
        (conversation.grants(graph=OTHER_GRAPH), a_tool(MAIL)),
        (conversation.grants(), a_tool("office__mail_all")),
        (RunGrants(database, other.account_id, KEY, GRAPH), a_tool(MAIL)),
        (None, a_tool(MAIL)),
    )

    assert [(await Run(grants).asked(called)).tool_name for grants, called in elsewhere] == [
        called.id for _, called in elsewhere
    ]


@pytest.mark.parametrize("mode", ["plan", "dontAsk"])
async def test_no_grant_allows_what_a_rule_or_a_mode_denies(
    conversation: Conversation, mode: PermissionMode
) -> None:
    run = Run(conversation.grants())
    await conversation.allow(run, await run.asked())

    with pytest.raises(ToolCallDenied):
        await Run(conversation.grants(), mode=mode).call()
    with pytest.raises(ToolCallDenied):
        await Run(conversation.grants(), ToolRule(tool="office__*", do="deny")).call()


async def test_a_call_that_waits_is_not_granted_in_a_mode_that_only_plans(conversation: Conversation) -> None:
    run = Run(conversation.grants())
    calls = [run.call(), run.call()]
    requests = {(await run.next()).request_id for _ in calls}
    run.approvals.mode = "plan"
    await run.approvals.decide(requests.pop(), Decision("allow", grant_by=conversation.key))
    ended = await asyncio.gather(*calls, return_exceptions=True)

    # The person has seen only the one.
    assert sorted(type(each).__name__ for each in ended) == ["ToolCallDenied", "dict"]


@pytest.mark.parametrize("by", ["a rule", "a client tool", "no conversation"])
async def test_what_is_allowed_one_by_one_cannot_be_granted(conversation: Conversation, by: str) -> None:
    one_by_one = ToolRule(tool="*", do="ask", grants=False)
    grants = None if by == "no conversation" else conversation.grants()
    run = Run(grants, one_by_one if by == "a rule" else ASKED)
    called = replace(a_tool(MAIL), id=client_tool_id("mail")) if by == "a client tool" else a_tool(MAIL)
    request = await run.asked(called)

    with pytest.raises(Invalid) as refused:
        await conversation.allow(run, request)

    assert refused.value.errors[0].field == "decision"
    assert not request.grantable
    assert run.events.empty()
    await run.approvals.decide(request.request_id, Decision("allow"))


async def test_a_rule_that_asks_each_time_asks_although_the_tool_is_granted(
    conversation: Conversation,
) -> None:
    run = Run(conversation.grants())
    await conversation.allow(run, await run.asked())

    strict = Run(conversation.grants(), ToolRule(tool="*", do="ask", grants=False))

    assert (await strict.asked()).tool_name == "office__mail"


async def test_a_grant_ends_when_it_is_revoked_or_its_conversation_is_deleted(
    conversation: Conversation, database: Database
) -> None:
    conversations, account_id = conversations_over(database), conversation.account_id
    run = Run(conversation.grants())
    await conversation.allow(run, await run.asked())
    (grant,) = await conversations.list_grants(account_id, KEY)
    await conversations.revoke_grant(account_id, KEY, grant.id)
    # Also in the run that goes on.
    await run.next()
    await conversation.allow(run, await run.asked())
    owner = Principal(account_id, conversation.key, frozenset({"runs:write"}))
    await end_run(database, RunKey(account_id, RunId("r1")))
    await conversations.delete(owner, KEY)
    await a_turn(database, conversation.record, "r2")

    assert (grant.graph_id, grant.tool_id, grant.api_key_id) == (GRAPH, MAIL, conversation.key)
    assert await conversations.list_grants(account_id, KEY) == []
    with pytest.raises(GrantNotFound):
        await conversations.revoke_grant(account_id, KEY, grant.id)
    assert (await Run(conversation.grants()).asked()).tool_name == MAIL
