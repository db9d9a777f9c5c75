from datetime import UTC, datetime, timedelta
from decimal import Decimal

from app.executors.tools.sessions import RunSession
from app.requests.run_request import RunLimits
from app.tools.extensions.hooks import RunHooks
from app.usage.records import Spent
from runtally.tools.hooks import Hooks, SessionResult
from runtally.tools.tool import HookContext
from tests.factories import a_conversation, a_final, a_plan


class Heard(Hooks):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.contexts: list[HookContext] = []
        self.results: list[SessionResult] = []

    async def session_start(self, context: HookContext) -> None:
        self.contexts.append(context)

    async def session_end(self, context: HookContext, result: SessionResult) -> None:
        self.contexts.append(context)
        self.results.append(result)


async def test_a_session_ends_once_it_has_begun_with_what_its_run_may_use() -> None:
    heard = Heard()
    plan = a_plan(
        attempt=1,
        limits=RunLimits(maxBudgetUsd=Decimal(3)),
        spent=Spent(cost_usd=Decimal(1)),
        timeout=timedelta(hours=1),
    )
    plan_of_chat = a_plan(run=plan.run, conversation=a_conversation(plan.run.account_id, "chat"))
    session = RunSession(RunHooks([("heard", heard)]), plan)

    await session.end(a_final())
    assert heard.contexts == []
    await session.start()
    await session.end(a_final(error="timeout", content="Hel", finish_reason="timeout"))
    await RunSession(RunHooks([("heard", heard)]), plan_of_chat).start()

    started, ended, of_chat = heard.contexts
    assert started == ended
    assert (started.run, started.attempt, started.graph_id) == (plan.run, 1, "claude_agents:planner")
    assert (started.budget_left_usd, of_chat.budget_left_usd) == (Decimal(2), None)
    assert (started.conversation, of_chat.conversation) == (None, "chat")
    assert started.deadline is not None
    assert timedelta(minutes=50) < started.deadline - datetime.now(UTC) <= timedelta(hours=1)
    expected = SessionResult(ok=False, finish_reason="timeout", error="timeout", content="Hel")
    assert heard.results == [expected]


async def test_a_run_that_has_waited_without_a_process_does_not_begin_again() -> None:
    heard = Heard()
    session = RunSession(RunHooks([("heard", heard)]), a_plan(attempt=1, parked={}))

    await session.start()
    assert heard.contexts == []
    await session.end(a_final())

    assert len(heard.results) == 1
