"""Approvals: tool calls that wait for a person's decision."""

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Literal, Protocol

import structlog
from pydantic import ValidationError

from app.errors import AppError, Conflict, FieldError, Invalid, NotFound
from app.events import PermissionRequest, PermissionResolved
from app.executors.waiting.calls import Publish, Resolution, WaitingCalls
from app.ids import new_uuid
from app.platform.serialization.mistakes import problem_of
from app.requests.runs import PermissionMode
from app.storable import storable
from app.tools.policy import ToolCallDenied
from runtally.tools.tool import ArgumentsRefused, Effect, ToolContext

log = structlog.get_logger(__name__)

_STRICTEST_FIRST: tuple[PermissionMode, ...] = (
    *("plan", "dontAsk", "default", "acceptEdits", "bypassPermissions"),
)

_ONLY_PLANS = "This run only plans: tools that change anything may not be called."
_NO_APPROVALS = "This call needs a person's approval, and this run requests none."
_EXPIRED = "This call was not approved in time."
_UNAVAILABLE = "Approval of this call cannot be requested now."
_DENIED = "A person has denied this call."


def is_less_strict(mode: PermissionMode, *, than: PermissionMode) -> bool:
    """Whether `mode` allows more tool calls without approval than the other mode."""
    return _STRICTEST_FIRST.index(mode) > _STRICTEST_FIRST.index(than)


class PermissionNotFound(NotFound):
    """No tool call of this run waits for this decision."""

    code = "permission_not_found"


class PermissionDecided(Conflict):
    """A different decision about this tool call was already made."""

    code = "permission_decided"


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision; `args` replace those of the model, `message` is shown to the model."""

    decision: Literal["allow", "deny"]
    args: dict[str, Any] | None = None
    message: str | None = None


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
class ApprovalRules:
    """Which tool calls need approval."""

    needed_for: frozenset[str] = frozenset()
    """Tool ids and tool effects."""
    mode: PermissionMode = "default"
    timeout: timedelta = timedelta()
    """How long a call waits for a decision."""


class Approvals:
    """One run's tool calls that need approval, and its permission mode."""

    def __init__(self, publish: Publish, rules: ApprovalRules) -> None:
        self._rules = rules
        self._calls = WaitingCalls[Decision](
            publish,
            rules.timeout,
            unknown=PermissionNotFound,
            answered=PermissionDecided,
            resolved_event=_resolved_event,
        )
        self.mode: PermissionMode = rules.mode

    async def review(self, tool: ApprovableTool, args: object, context: ToolContext) -> object:
        """The arguments to call the tool with; raises `ToolCallDenied`."""
        if self.mode == "plan" and not tool.read_only:
            raise ToolCallDenied(_ONLY_PLANS)
        needed = not self._rules.needed_for.isdisjoint({tool.id, tool.effect})
        if not needed or self.mode == "bypassPermissions":
            return args
        if self.mode == "dontAsk":
            raise ToolCallDenied(_NO_APPROVALS)
        decision = await self._request_decision(tool, args, context)
        if decision.decision == "deny":
            raise ToolCallDenied(decision.message or _DENIED)
        return args if decision.args is None else decision.args

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Allow or deny a waiting call; the same decision twice counts once.

        Raises `PermissionNotFound`, `PermissionDecided`, and `Invalid` for arguments that the tool does
        not accept: then the call keeps waiting.
        """
        await self._calls.answer(request_id, decision)

    async def end(self) -> None:
        """The run is over: deny the waiting calls and all later ones."""
        await self._calls.end()

    async def _request_decision(self, tool: ApprovableTool, args: object, context: ToolContext) -> Decision:
        request_id = str(new_uuid())
        try:
            resolution = await self._calls.wait(
                request_id,
                lambda expires_at: PermissionRequest(
                    request_id=request_id,
                    tool_call_id=context.tool_call_id,
                    tool_name=tool.id,
                    args=storable(args),
                    expires_at=expires_at,
                ),
                check=partial(_check_args, tool),
            )
        except AppError as error:
            raise ToolCallDenied(_UNAVAILABLE) from error
        if resolution.answer is None:
            raise ToolCallDenied(_EXPIRED if resolution.reason == "expired" else _UNAVAILABLE)
        return resolution.answer


def _resolved_event(request_id: str, resolution: Resolution[Decision]) -> PermissionResolved:
    decision = resolution.answer or Decision("deny")
    return PermissionResolved(
        request_id=request_id, decision=decision.decision, reason=resolution.reason, args=decision.args
    )


async def _check_args(tool: ApprovableTool, decision: Decision) -> None:
    if decision.args is not None:
        await _validate_args(tool, decision.args)


async def _validate_args(tool: ApprovableTool, args: dict[str, Any]) -> None:
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
