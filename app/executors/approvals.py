"""Tool calls that wait for a person."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol

import structlog
from pydantic import ValidationError

from app.errors import AppError, Conflict, FieldError, Invalid, NotFound
from app.events import ControlEvent, PermissionRequest, PermissionResolved, ResolvedBy
from app.ids import new_uuid
from app.requests import PermissionMode
from app.storable import storable
from app.tools.policy import ToolCallDenied
from app.tools.tool import ArgumentsRefused, Effect, ToolContext

log = structlog.get_logger(__name__)

_STRICTEST_FIRST: tuple[PermissionMode, ...] = (
    *("plan", "dontAsk", "default", "acceptEdits", "bypassPermissions"),
)

_ONLY_PLANS = "This run only plans: a tool that changes anything may not be called."
_ASKS_NOBODY = "This call needs a person's consent, and nobody is asked in this run."
_EXPIRED = "Nobody consented to this call in time."
_UNAVAILABLE = "Nobody can be asked for consent to this call now."
_DENIED = "A person has denied this call."


def is_less_strict(mode: PermissionMode, *, than: PermissionMode) -> bool:
    """Whether tools may be called more freely in one mode than in the other."""
    return _STRICTEST_FIRST.index(mode) > _STRICTEST_FIRST.index(than)


class PermissionNotFound(NotFound):
    """No tool call of this run waits for this decision."""

    code = "permission_not_found"


class PermissionDecided(Conflict):
    """Something else was decided about this tool call already."""

    code = "permission_decided"


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person said; `args` replace those of the model, `message` is for the model."""

    decision: Literal["allow", "deny"]
    args: dict[str, Any] | None = None
    message: str | None = None


class ApprovableTool(Protocol):
    """A tool, as far as consent is concerned."""

    @property
    def id(self) -> str:
        """What clients know it by."""
        ...

    @property
    def effect(self) -> Effect:
        """What a call may do."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether it changes nothing."""
        ...

    async def arguments(self, raw: object) -> object:
        """The arguments as it takes them; raises `ArgumentsRefused` and pydantic's errors."""
        ...


@dataclass(slots=True)
class _PendingCall:
    tool: ApprovableTool
    request_published: asyncio.Future[None]
    """Telling readers that a person is asked: to its end, though the call may be given up meanwhile."""
    resolving: asyncio.Task[None] | None = None
    decided: asyncio.Future[Decision] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Approvals:
    """One run's tool calls that need consent, and the mode that says which those are."""

    def __init__(self, publish: Callable[[ControlEvent], Awaitable[None]]) -> None:
        self._publish = publish
        self._approval_needed: frozenset[str] = frozenset()
        self._timeout = timedelta()
        self._waiting: dict[str, _PendingCall] = {}
        self._ended = False
        self.mode: PermissionMode = "default"

    def require(self, needing: frozenset[str], *, mode: PermissionMode, timeout: timedelta) -> None:
        """Set the rules: which tools or effects need consent, and how long a call waits for it."""
        self._approval_needed, self.mode, self._timeout = needing, mode, timeout

    async def review(self, tool: ApprovableTool, args: object, context: ToolContext) -> object:
        """The arguments to call the tool with; raises `ToolCallDenied`."""
        if self.mode == "plan" and not tool.read_only:
            raise ToolCallDenied(_ONLY_PLANS)
        needed = not self._approval_needed.isdisjoint({tool.id, tool.effect})
        if not needed or self.mode == "bypassPermissions":
            return args
        if self.mode == "dontAsk":
            raise ToolCallDenied(_ASKS_NOBODY)
        decision = await self._request_decision(tool, args, context)
        if decision.decision == "deny":
            raise ToolCallDenied(decision.message or _DENIED)
        return args if decision.args is None else decision.args

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Let a waiting call go on, or not; the same decision twice is one.

        Raises `PermissionNotFound`, `PermissionDecided`, and `Invalid` for arguments the tool does
        not take: the call waits on then.
        """
        if (waiting := self._waiting.get(request_id)) is None:
            raise PermissionNotFound
        if decision.args is not None and not waiting.decided.done():
            await _validate_args(waiting.tool, decision.args)
        # Looked at now: somebody else may have decided during the check.
        if not waiting.decided.done():
            waiting.decided.set_result(decision)
        elif waiting.decided.result() != decision:
            raise PermissionDecided

    async def end(self) -> None:
        """The run is over: nothing waits any more, and nobody is asked again."""
        self._ended = True
        for request_id in list(self._waiting):
            await self._resolve(request_id, Decision("deny"), "run_stopped")

    async def _request_decision(self, tool: ApprovableTool, args: object, context: ToolContext) -> Decision:
        if self._ended:
            raise ToolCallDenied(_UNAVAILABLE)
        request_id = str(new_uuid())
        request = PermissionRequest(
            request_id=request_id,
            tool_call_id=context.tool_call_id,
            tool_name=tool.id,
            args=storable(args),
            expires_at=(datetime.now(UTC) + self._timeout).isoformat().replace("+00:00", "Z"),
        )
        waiting = _PendingCall(tool, asyncio.ensure_future(self._publish(request)))
        self._waiting[request_id] = waiting
        reason: ResolvedBy = "run_stopped"
        try:
            await asyncio.shield(waiting.request_published)
            done, _ = await asyncio.wait({waiting.decided}, timeout=self._timeout.total_seconds())
            reason = "decided" if done else "expired"
            return waiting.decided.result() if done else Decision("deny", message=_EXPIRED)
        except AppError as error:
            raise ToolCallDenied(_UNAVAILABLE) from error
        finally:
            decision = waiting.decided.result() if waiting.decided.done() else Decision("deny")
            await self._resolve(request_id, decision, reason)

    async def _resolve(self, request_id: str, decision: Decision, reason: ResolvedBy) -> None:
        """Say how it ended, once; whoever comes second waits until it is said."""
        waiting = self._waiting[request_id]
        if waiting.resolving is None:
            if not waiting.decided.done():
                waiting.decided.set_result(decision)
            event = PermissionResolved(
                request_id=request_id, decision=decision.decision, reason=reason, args=decision.args
            )
            waiting.resolving = asyncio.create_task(self._publish_resolved(waiting, event))
        await asyncio.shield(waiting.resolving)

    async def _publish_resolved(self, waiting: _PendingCall, event: PermissionResolved) -> None:
        await asyncio.wait({waiting.request_published})
        if waiting.request_published.exception() is not None:
            # Nobody has heard the question.
            return
        try:
            await self._publish(event)
        except AppError as error:
            log.warning("a reader was not told how a request for consent ended", reason=error.detail)


async def _validate_args(tool: ApprovableTool, args: dict[str, Any]) -> None:
    try:
        await tool.arguments(args)
    except ArgumentsRefused as error:
        raise Invalid.field(f"args.{error.where}" if error.where else "args", error.reason) from error
    except ValidationError as error:
        faults = [
            FieldError(".".join(["args", *map(str, fault["loc"])]), fault["msg"])
            for fault in error.errors(include_input=False, include_url=False)
        ]
        message = f"{faults[0].field}: {faults[0].message}"
        raise Invalid(message, errors=faults) from error
