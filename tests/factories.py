"""Plain functions with defaults that make what tests need."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields as dataclass_fields
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from app.auth.accounts import Accounts
from app.auth.records import KeyRecord
from app.billing.budgets.records import AccountBudget
from app.conversations.records import Conversation, NewTurn
from app.events import AiEvent, ControlEvent
from app.executors.approvals import Permissions
from app.executors.control import RunControl
from app.executors.port import ClientToolSchema, RunContext, RunPlan, RunSchemas
from app.graphs.rules.evaluation import CallRules
from app.graphs.rules.spec import ToolRule
from app.graphs.spec import GraphSpec
from app.ids import AccountId, ApiKeyId, MessageId, RunId, RunKey, new_uuid
from app.platform.db import Database
from app.platform.json_schema.document import SchemaDocument
from app.platform.json_schema.model_schema import model_schema
from app.platform.postgres.connecting import Connector
from app.requests.attribution import NO_LABELS
from app.requests.client_tools import ClientTool
from app.requests.outcome import FinalUsage, GraphFinal
from app.requests.run_request import PermissionMode, RunLimits
from app.runs.records import RunRecord
from app.tools.argument_schema import argument_schema
from app.tools.modern_schema import modern_schema
from app.usage.records import Attribution, TokenUsage, UsageFact
from tests.patience import PATIENCE_S
from tests.scripted import Action, ScriptedExecutor, WaitFor

_T = TypeVar("_T")


def not_none(value: _T | None) -> _T:
    """What must be there."""
    assert value is not None
    return value


def a_budget(**fields: Any) -> AccountBudget:
    """A budget; by default a hard one of the account for a month."""
    given = {"id": "limit", "scope": "account", "window": "month", "mode": "hard", "time_zone": "UTC"}
    return AccountBudget(
        **{"match": None, "credits": None, "tokens": None, "is_operators": False, **given, **fields}
    )


async def an_account(database: Database, name: str = "acme") -> KeyRecord:
    """An account with a key of every run and receipt scope."""
    scopes = ["runs:write", "runs:read", "runs:approve", "receipts:read"]
    record, _ = await Accounts(database).create_key(name, scopes)
    return record


def a_record(run: RunKey, **fields: Any) -> RunRecord:
    """The row of a run."""
    defaults: dict[str, Any] = dict.fromkeys(each.name for each in dataclass_fields(RunRecord))
    given = {"api_key_id": ApiKeyId(new_uuid()), "graph_id": "claude_agents:assistant", "model": "m"}
    rest = {"status": "running", "attempt": 0, "request_hash": b"", "created_at": datetime.now(UTC)}
    fixed = {"key": run, "priority": 3, "labels": NO_LABELS}
    return RunRecord(**{**defaults, **given, **rest, **fixed, **fields})


def a_fact(key: KeyRecord, message: str = "msg_1", run: str = "run-1", **fields: Any) -> UsageFact:
    """What one message used."""
    defaults: dict[str, Any] = {
        "attempt": 0,
        "model": "claude-sonnet-4-6",
        "usage": TokenUsage(input_tokens=1000, output_tokens=100),
        "executor_type": "claude_sdk",
    }
    return UsageFact(
        run=RunKey(key.account_id, RunId(run)),
        message_id=MessageId(message),
        attribution=Attribution(key.id, "claude_agents:assistant", "req-1"),
        **{**defaults, **fields},
    )


def a_plan(**fields: Any) -> RunPlan:
    """The plan of a run."""
    defaults: dict[str, Any] = {
        "run": RunKey(AccountId(new_uuid()), RunId("r1")),
        "attempt": 0,
        "spec": GraphSpec(name="planner", description="d", system_prompt="p"),
        "model": "claude-sonnet-4-6",
        "tools": (),
        "limits": RunLimits(),
        "timeout": timedelta(seconds=1),
        "attribution": Attribution(ApiKeyId(new_uuid()), "claude_agents:planner", None),
    }
    return RunPlan(**{**defaults, **fields})


def schemas_of(*tools: ClientTool, answer: dict[str, Any] | None = None) -> RunSchemas:
    """The schemas of a request with these tools, and of its answer."""
    prepared = {
        tool.name: ClientToolSchema(
            SchemaDocument.of(tool.input_schema), *argument_schema(modern_schema(tool.input_schema))
        )
        for tool in tools
    }
    return RunSchemas(None if answer is None else model_schema(SchemaDocument.of(answer)), prepared)


def a_final(run_id: str = "run-1", **fields: Any) -> GraphFinal:
    """How a run ended: with an answer, or with an `error`."""
    is_ok = fields.get("error") is None
    defaults: dict[str, Any] = {"request_id": None, "content": "", "usage": FinalUsage()}
    reason = "stop" if is_ok else "error"
    return GraphFinal(**{**defaults, "ok": is_ok, "run_id": run_id, "finish_reason": reason, **fields})


def a_conversation(account_id: AccountId, state_key: str = "chat") -> Conversation:
    """A conversation in its first turn."""
    now = datetime.now(UTC)
    return Conversation(
        account_id=account_id,
        state_key=state_key,
        session_id=new_uuid(),
        title=None,
        turns=1,
        forked_from=None,
        forked_at=None,
        created_at=now,
        updated_at=now,
        executor="claude_agents",
    )


class Events:
    """An event sink that keeps what it is given."""

    def __init__(self) -> None:
        self.published: list[AiEvent] = []

    async def publish(self, event: AiEvent) -> int:
        """See the port."""
        self.published.append(event)
        return len(self.published)


def scripted(*actions: Action) -> dict[str, ScriptedExecutor]:
    """Executors that play this script in each run, instead of the Claude Agent SDK."""
    return {"claude_agents": ScriptedExecutor(lambda _: actions)}


def a_new_turn(state_key: str, *, title: str | None = None, executor: str = "claude_agents") -> NewTurn:
    return NewTurn(state_key, title, executor, new_uuid())


def a_wait() -> WaitFor:
    """A wait of a script; `until` ends it."""
    return WaitFor(asyncio.Event(), asyncio.Event())


async def reached_by(wait: WaitFor) -> None:
    """Wait until a run waits; fail when it does not, for example because another executor has it."""
    assert wait.reached is not None
    async with asyncio.timeout(PATIENCE_S):
        await wait.reached.wait()


def asking(*tools: str, mode: PermissionMode = "default", timeout_s: float = PATIENCE_S) -> Permissions:
    """Permissions of a run whose calls of these tools, or with these effects, wait for a person."""
    rules = tuple(ToolRule(tool=tool, do="ask") for tool in tools)
    return Permissions(CallRules(rules), mode, timedelta(seconds=timeout_s))


async def unpublished(_event: ControlEvent) -> None:
    """A run without readers."""


def a_control() -> RunControl:
    """The control of a run without readers."""
    return RunControl(unpublished)


def a_context(plan: RunPlan | None = None) -> RunContext:
    """What an executor gets for a run."""
    return RunContext(plan or a_plan(), a_control(), Events())


def an_unused_database() -> Database:
    """A database that nothing may connect to, for what takes one and does not use it in a test."""
    connector = Connector("postgresql://nobody@localhost:1/none")
    return Database(connector, connector)


@asynccontextmanager
async def an_open_database(url: str) -> AsyncIterator[Database]:
    """Connections of a process of their own."""
    database = await Database.open(url)
    try:
        yield database
    finally:
        await database.aclose()
