"""Approvals: tool calls that wait for a person's decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final, Literal, Protocol

import structlog
from pydantic import BaseModel, TypeAdapter, ValidationError

from app.errors import AppError, Conflict, FieldError, Invalid, NotFound
from app.events import PermissionRequest, PermissionResolved
from app.executors.evidence import AddEvidence, CallDecision, keep_none
from app.executors.waiting.calls import CallKind, Publish, Resolution, WaitingCalls
from app.executors.waiting.port import Waits
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


class Approvals:
    """One run's tool calls that need approval, and its permission mode."""

    def __init__(
        self,
        publish: Publish,
        permissions: Permissions,
        waits: Waits,
        *,
        add_evidence: AddEvidence = keep_none,
    ) -> None:
        self._rules = permissions.rules
        self._add_evidence = add_evidence
        self.calls = WaitingCalls(publish, permissions.timeout, PERMISSIONS, waits)
        self.mode: PermissionMode = permissions.mode

    async def review(self, tool: ApprovableTool, args: object, context: ToolContext) -> object:
        """The arguments to call the tool with; raises `ToolCallDenied`."""
        decided = CallDecision(context.tool_call_id, shown_name(tool.id), self.mode, args)
        try:
            await self._decide(tool, decided, context)
        except ToolCallDenied as denied:
            decided.decision, decided.message = "deny", str(denied)
            raise
        else:
            decided.decision = "allow"
            return decided.args
        finally:
            self._add_evidence(decided.evidence())

    async def _decide(self, tool: ApprovableTool, decided: CallDecision, context: ToolContext) -> None:
        decision = None
        if self.calls.keeps(context.tool_call_id):
            # Readers get to know the answer, whatever the rules are now.
            decision = await self._request_decision(tool, decided, context)
        rule = await self._rule_for(tool, decided)
        if decision is None:
            if permitted(self.mode, tool, rule.do) == "allow":
                return
            decision = await self._request_decision(tool, decided, context)
        if decision.decision == "deny":
            refusal = RunDenied if decision.stop else ToolCallDenied
            raise refusal(decision.message or rule.message or _DENIED)
        if decision.args is not None:
            decided.args = decision.args
            await self._rule_for(tool, decided)

    async def _rule_for(self, tool: ApprovableTool, decided: CallDecision) -> ToolRule:
        """The rule for a call, unless it denies the call: then it raises `ToolCallDenied`."""
        decided.rule = await matching_rule(self._rules, tool, decided.args)
        rule = decided.rule or _NO_RULE
        if rule.do == "deny":
            raise (RunDenied if rule.stop else ToolCallDenied)(rule.message or _FORBIDDEN)
        return rule

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Allow or deny a waiting call; the same decision twice counts once.

        Raises `PermissionNotFound`, `PermissionDecided`, and `Invalid` for arguments that the tool does
        not accept: then the call keeps waiting.
        """
        await self.calls.answer(request_id, decision)

    async def _request_decision(
        self, tool: ApprovableTool, decided: CallDecision, context: ToolContext
    ) -> Decision:
        decided.request_id = request_id = str(new_uuid())
        try:
            resolution = await self.calls.wait(
                request_id,
                lambda expires_at: PermissionRequest(
                    request_id=request_id,
                    tool_call_id=context.tool_call_id,
                    tool_name=shown_name(tool.id),
                    args=storable(decided.args),
                    expires_at=expires_at,
                ),
                check=partial(_check_args, tool),
                tool_call_id=context.tool_call_id,
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


PERMISSIONS: Final = CallKind(
    "permission",
    TypeAdapter(Decision),
    unknown=PermissionNotFound,
    answered=PermissionDecided,
    resolved_event=_resolved_event,
)


async def _check_args(tool: ApprovableTool, decision: Decision) -> None:
    if decision.args is not None:
        await require_arguments(tool, decision.args)


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
