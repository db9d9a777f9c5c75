"""Approvals: tool calls that wait for a person's decision."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, Protocol

import structlog
from pydantic import BaseModel, ValidationError

from app.errors import AppError, Conflict, FieldError, Invalid, NotFound
from app.events import ControlEvent, PermissionRequest, PermissionResolved, ResolvedBy
from app.graphs.rules.evaluation import CallRules
from app.graphs.rules.modes import permitted
from app.graphs.rules.spec import ToolRule
from app.ids import new_uuid
from app.platform.serialization.mistakes import problem_of
from app.requests.client_tools import is_client_tool, shown_name
from app.requests.runs import PermissionMode
from app.storable import storable
from app.tools.policy import ToolCallDenied
from runtally.tools.tool import ArgumentsRefused, Effect, ToolContext

log = structlog.get_logger(__name__)

_EXPIRED = "This call was not approved in time."
_UNAVAILABLE = "Approval of this call cannot be requested now."
_DENIED = "A person has denied this call."
_FORBIDDEN = "A rule of this graph denies this call."


_NO_RULE: Final = ToolRule(tool="*", do="allow")


class PermissionNotFound(NotFound):
    """No tool call of this run waits for this decision."""

    code = "permission_not_found"


class PermissionDecided(Conflict):
    """A different decision about this tool call was already made."""

    code = "permission_decided"


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision.

    `args` replace those of the model, `message` is shown to the model; `stop`: a denied call ends the run.
    """

    decision: Literal["allow", "deny"]
    args: dict[str, Any] | None = None
    message: str | None = None
    stop: bool = False


class RunDenied(ToolCallDenied):
    """A tool call is denied, and the run is to end."""


class ApprovableTool(Protocol):
    """What approvals need to know of a tool."""

    @property
    def id(self) -> str:
        """The id that clients see."""
        ...

    @property
    def effect(self) -> Effect:
        """The effect of a call."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether it changes nothing."""
        ...

    async def arguments(self, raw: object) -> object:
        """The validated arguments; raises `ArgumentsRefused` and pydantic's errors."""
        ...


@dataclass(frozen=True, slots=True)
class Permissions:
    """What decides about the tool calls of a run when it starts."""

    rules: CallRules = field(default_factory=CallRules)
    mode: PermissionMode = "default"
    timeout: timedelta = timedelta()
    """How long a call waits for a decision."""


@dataclass(slots=True)
class _PendingCall:
    tool: ApprovableTool
    request_published: asyncio.Future[object]
    """Publishes the request; runs to its end even if the call is cancelled meanwhile."""
    resolving: asyncio.Task[None] | None = None
    decided: asyncio.Future[Decision] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Approvals:
    """One run's tool calls that need approval, and its permission mode."""

    def __init__(
        self, publish: Callable[[ControlEvent], Awaitable[object]], permissions: Permissions
    ) -> None:
        """`publish` appends an event to the run's log."""
        self._publish = publish
        self._rules = permissions.rules
        self._timeout = permissions.timeout
        self._pending: dict[str, _PendingCall] = {}
        self._ended = False
        self.mode: PermissionMode = permissions.mode

    @property
    def is_waiting(self) -> bool:
        """Whether a call waits for a person's decision."""
        return bool(self._pending)

    async def review(self, tool: ApprovableTool, args: object, context: ToolContext) -> object:
        """The arguments to call the tool with; raises `ToolCallDenied`."""
        rule = await self._rule_for(tool, args)
        if permitted(self.mode, tool, rule.do) == "allow":
            return args
        decision = await self._request_decision(tool, args, context)
        if decision.decision == "deny":
            refusal = RunDenied if decision.stop else ToolCallDenied
            raise refusal(decision.message or rule.message or _DENIED)
        if decision.args is None:
            return args
        await self._rule_for(tool, decision.args)
        return decision.args

    async def _rule_for(self, tool: ApprovableTool, args: object) -> ToolRule:
        """The rule for a call, unless it denies the call: then it raises `ToolCallDenied`."""
        rule = await matching_rule(self._rules, tool, args) or _NO_RULE
        if rule.do == "deny":
            raise (RunDenied if rule.stop else ToolCallDenied)(rule.message or _FORBIDDEN)
        return rule

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Allow or deny a waiting call; the same decision twice counts once.

        Raises `PermissionNotFound`, `PermissionDecided`, and `Invalid` for arguments that the tool does
        not accept: then the call keeps waiting.
        """
        if (call := self._pending.get(request_id)) is None:
            raise PermissionNotFound
        if decision.args is not None and not call.decided.done():
            await require_arguments(call.tool, decision.args)
        # Checked only now: another decision may have been made during the validation.
        if not call.decided.done():
            call.decided.set_result(decision)
        elif call.decided.result() != decision:
            raise PermissionDecided

    async def end(self) -> None:
        """The run is over: deny the waiting calls and all later ones."""
        self._ended = True
        for request_id in list(self._pending):
            await self._resolve(request_id, Decision("deny"), "run_stopped")

    async def _request_decision(self, tool: ApprovableTool, args: object, context: ToolContext) -> Decision:
        if self._ended:
            raise ToolCallDenied(_UNAVAILABLE)
        request_id = str(new_uuid())
        request = PermissionRequest(
            request_id=request_id,
            tool_call_id=context.tool_call_id,
            tool_name=shown_name(tool.id),
            args=storable(args),
            expires_at=(datetime.now(UTC) + self._timeout).isoformat().replace("+00:00", "Z"),
        )
        call = _PendingCall(tool, asyncio.ensure_future(self._publish(request)))
        self._pending[request_id] = call
        reason: ResolvedBy = "run_stopped"
        try:
            await asyncio.shield(call.request_published)
            done, _ = await asyncio.wait({call.decided}, timeout=self._timeout.total_seconds())
            reason = "decided" if done else "expired"
            return call.decided.result() if done else Decision("deny", message=_EXPIRED)
        except AppError as error:
            raise ToolCallDenied(_UNAVAILABLE) from error
        finally:
            decision = call.decided.result() if call.decided.done() else Decision("deny")
            await self._resolve(request_id, decision, reason)

    async def _resolve(self, request_id: str, decision: Decision, reason: ResolvedBy) -> None:
        """Publish the decision once; a second caller waits until it is published."""
        call = self._pending[request_id]
        if call.resolving is None:
            if not call.decided.done():
                call.decided.set_result(decision)
            event = PermissionResolved(
                request_id=request_id, decision=decision.decision, reason=reason, args=decision.args
            )
            call.resolving = asyncio.create_task(self._publish_resolved(call, event))
        await asyncio.shield(call.resolving)

    async def _publish_resolved(self, call: _PendingCall, event: PermissionResolved) -> None:
        await asyncio.wait({call.request_published})
        if call.request_published.exception() is not None:
            # No reader has seen the request.
            return
        try:
            await self._publish(event)
        except AppError as error:
            log.warning("approval.resolution_not_published", reason=error.detail)


async def matching_rule(rules: CallRules, tool: ApprovableTool, args: object) -> ToolRule | None:
    """The first rule that matches a call; None if none does."""
    # What a client executes has no effect here.
    effect = None if is_client_tool(tool.id) else tool.effect
    covering = rules.covering(shown_name(tool.id), effect)
    if any(rule.when is not None for rule in covering):
        # As the tool gets them: in one form, with defaults.
        given = await tool.arguments(args)
        args = given.model_dump(mode="json", by_alias=True) if isinstance(given, BaseModel) else given
    return await rules.decide(covering, args)


async def require_arguments(tool: ApprovableTool, args: Mapping[str, Any]) -> None:
    """Raise `Invalid`, naming fields, for arguments that the tool does not accept."""
    try:
        await tool.arguments(args)
    except ArgumentsRefused as error:
        raise Invalid.field(f"args.{error.where}" if error.where else "args", error.reason) from error
    except ValidationError as error:
        faults = [
            FieldError(".".join(["args", *map(str, fault["loc"])]), problem_of(fault))
            for fault in error.errors(include_input=False, include_url=False)
        ]
        message = f"{faults[0].field}: {faults[0].message}"
        raise Invalid(message, errors=faults) from error
    except Exception as error:
        # A mistake of the tool's author, in a validator of its input model.
        log.exception("approval.check_failed", tool_id=tool.id)
        raise Invalid.field("args", "could not be checked: the tool failed to validate them") from error
