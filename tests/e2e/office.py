"""Tools and graphs for stories about control: a mail that needs consent, a task that takes time."""

import asyncio
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pydantic import BaseModel, Field, field_validator

from runtally.tools.tool import ToolContext, ToolOutput, tool

MAIL = "mcp__runtally__office__send_mail"
TASK = "mcp__runtally__office__long_task"

MAILER = "claude_agents:mailer"
WORKER = "claude_agents:worker"
AWAY = "TESTS_OFFICE"
"""For servers in processes of their own: the file in which they note mails. Their tasks end on their own."""
_AWAY_S = 0.2


class Office:
    """What the tools did, and when they may go on."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.working = asyncio.Event()
        self.may_end = asyncio.Event()

    def send(self, to: str, text: str) -> None:
        """Note a mail."""
        self.sent.append((to, text))
        if away := os.environ.get(AWAY):
            with Path(away).open("a") as mails:
                mails.write(json.dumps([to, text]) + "\n")


_offices = WeakKeyDictionary[asyncio.AbstractEventLoop, Office]()


def office() -> Office:
    """The office of the running event loop."""
    return _offices.setdefault(asyncio.get_running_loop(), Office())


def close_office() -> None:
    """Begin with another one, where tests share an event loop."""
    _offices.pop(asyncio.get_running_loop(), None)


DEPARTMENTS = {"example.org": "sales"}


class Mail(BaseModel):
    to: str = Field(pattern="@")
    text: str

    @field_validator("to")
    @classmethod
    def _has_a_department(cls, to: str) -> str:
        # A mistake of the tool's author: an address elsewhere is a KeyError, not a ValueError.
        assert DEPARTMENTS[to.partition("@")[2]]
        return to


class Sent(BaseModel):
    to: str


@tool(id="office__send_mail", description="Send a mail.", effect="external_side_effect", redact=("to",))
async def send_mail(args: Mail, _context: ToolContext) -> ToolOutput[Sent]:
    office().send(args.to, args.text)
    return ToolOutput(markdown=f"Sent to {args.to}.", structured=Sent(to=args.to))


class Nothing(BaseModel):
    pass


@tool(id="office__long_task", description="Takes long.", effect="state_change", redact=())
async def long_task(_args: Nothing, _context: ToolContext) -> ToolOutput[Nothing]:
    here = office()
    here.working.set()
    if AWAY in os.environ:
        asyncio.get_running_loop().call_later(_AWAY_S, here.may_end.set)
    await here.may_end.wait()
    return ToolOutput(markdown="Done.", structured=Nothing())


@tool(id="office__describe_call", description="Says what it knows.", effect="read_only")
async def describe_call(_args: Nothing, context: ToolContext) -> str:
    assert context.deadline is not None
    left_s = (context.deadline - datetime.now(UTC)).total_seconds()
    known = [context.graph_id, context.conversation, 0 < left_s <= 60, context.budget_left_usd]
    return json.dumps(known, default=str)


def settings(directory: Path, **mailer: Any) -> dict[str, Any]:
    """Settings with these tools and two graphs; `mailer` are keys of the mailer's head."""
    graphs = directory / "graphs"
    graphs.mkdir(exist_ok=True)
    head = {
        "approve": "[external_side_effect]",
        "permission_modes": "[plan, dontAsk, bypassPermissions]",
        **mailer,
    }
    lines = "\n".join(f"{key}: {value}" for key, value in head.items())
    (graphs / "mailer.md").write_text(
        f"---\ndescription: Sends mail.\ntools: [office__send_mail]\n{lines}\n---\nSend mail.\n"
    )
    (graphs / "worker.md").write_text(
        "---\ndescription: Works.\ntools: [office__long_task, office__describe_call]\n"
        "retry: true\n---\nWork.\n"
    )
    return {"RUNTALLY_TOOLS": "tests.e2e.office", "RUNTALLY_GRAPHS_DIR": graphs}
