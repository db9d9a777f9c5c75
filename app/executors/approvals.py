"""Approvals: tool calls of a run that wait for a person, until a decision or their time is up."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final, Protocol

import structlog
from pydantic import BaseModel, TypeAdapter, ValidationError

from app.conversations.grants.service import RunGrants
from app.errors import AppError, FieldError, Invalid
from app.events import PermissionRequest, PermissionResolved, ResolvedBy
from app.executors.evidence import AddEvidence, CallDecision, keep_none
from app.executors.waiting.calls import NO_DETAILS, CallKind, Publish, Resolution, WaitingCalls
from app.executors.waiting.port import Waits
from app.executors.waiting.records import GRANTED, Decision, PermissionDecided, PermissionNotFound
from app.graphs.rules.evaluation import CallRules
from app.graphs.rules.modes import permitted
from app.graphs.rules.spec import ToolRule
from app.ids import new_uuid
from app.platform.serialization.mistakes import problem_of
from app.requests.client_tools import is_client_tool, shown_name
from app.requests.run_request import PermissionMode
from app.storable import storable
from app.tools.policy import ToolCallDenied
from runtally.tools.tool import ArgumentsRefused, Effect, ToolContext

log = structlog.get_logger(__name__)

_EXPIRED = "This call was not approved in time."
_UNAVAILABLE = "Approval of this call cannot be requested now."
_DENIED = "A person has denied this call."
_FORBIDDEN = "A rule of this graph denies this call."


_NOT_GRANTABLE = "must be allow or deny: calls of this tool are allowed one by one"

ARGS_SCHEMA: Final = "argsSchema"
"""Of a stored request: what changed arguments are checked against where its run is in no process."""
_LONGEST_SCHEMA: Final = 16_384
"""With a longer one, they are checked when the run goes on."""

_NO_RULE: Final = ToolRule(tool="*", do="allow")


class RunDenied(ToolCallDenied):
    """A tool call is denied, and the run is to end."""


class ApprovableTool(Protocol):
    """What approvals need to know of a tool."""

    @property
    def id(self) -> str: ...

    @property
    def effect(self) -> Effect: ...

    @property
    def read_only(self) -> bool:
        """Whether it changes nothing."""
        ...

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
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
    grants: RunGrants | None = None
    """None for a run without a conversation."""


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
        self._publish = publish
        self._add_evidence = add_evidence
        self._rules = permissions.rules
        self._grants = permissions.grants
        self._given = 0
        """How many grants the run has got."""
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
        resolved = None
        if self.calls.keeps(context.tool_call_id):
            # Readers get to know the answer, whatever the rules are now.
            resolved = await self._request_decision(tool, decided, context)
        rule = await self._rule_for(tool, decided)
        if resolved is None:
            if permitted(self.mode, tool, rule.do) == "allow":
                return
            resolved = await self._request_decision(tool, decided, context, grantable=rule.grants)
        decided.reason, decision = resolved
        if decided.reason == "granted":
            # Not by a person who has seen this call: the mode may be stricter by now.
            permitted(self.mode, tool, rule.do)
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
        not accept, or a grant that may not be given: then the call keeps waiting.
        """
        request = self.calls.request(request_id)
        tool_id = None if decision.grant_by is None or not request else granted_tool(request)
        await self.calls.answer(request_id, decision)
        if self._grants is not None and decision.grant_by is not None and tool_id is not None:
            await self._grants.give(tool_id, by=decision.grant_by)
            self._given += 1
            await self.calls.grant(lambda other: is_granted(other, tool_id))

    async def _request_decision(
        self,
        tool: ApprovableTool,
        decided: CallDecision,
        context: ToolContext,
        *,
        grantable: bool = False,
    ) -> tuple[ResolvedBy, Decision]:
        request_id, schema = str(new_uuid()), tool.input_schema
        grantable = grantable and self._grants is not None and not is_client_tool(tool.id)

        def request(expires_at: str) -> PermissionRequest:
            decided.request_id = request_id
            return PermissionRequest(
                request_id=request_id,
                tool_call_id=context.tool_call_id,
                tool_name=shown_name(tool.id),
                args=storable(decided.args),
                expires_at=expires_at,
                grantable=grantable,
            )

        try:
            if grantable and await self._is_granted(tool, context):
                return "granted", GRANTED
            resolution = await self.calls.wait(
                request_id,
                request,
                check=partial(_check_args, tool),
                tool_call_id=context.tool_call_id,
                details={ARGS_SCHEMA: schema} if len(json.dumps(schema)) <= _LONGEST_SCHEMA else NO_DETAILS,
            )
        except AppError as error:
            raise ToolCallDenied(_UNAVAILABLE) from error
        if resolution.answer is None:
            raise ToolCallDenied(_EXPIRED if resolution.reason == "expired" else _UNAVAILABLE)
        return resolution.reason, resolution.answer

    async def _is_granted(self, tool: ApprovableTool, context: ToolContext) -> bool:
        """Whether an earlier decision allows the call; readers get to know that."""
        given = -1
        # Again, if there was a grant meanwhile: it has found only the calls that waited by then.
        while self._grants is not None and given != self._given:
            given = self._given
            if await self._grants.covers(tool.id):
                call_id = context.tool_call_id
                await self._publish(
                    PermissionResolved(
                        request_id=str(new_uuid()), decision="allow", reason="granted", tool_call_id=call_id
                    )
                )
                return True
        return False


def granted_tool(request: Mapping[str, Any]) -> str:
    """The tool of a stored request that a grant is about; raises `Invalid` if there may be none."""
    if not request.get("grantable"):
        raise Invalid.field("decision", _NOT_GRANTABLE)
    tool_id: str = request["toolName"]
    return tool_id


def is_granted(request: Mapping[str, Any], tool_id: str) -> bool:
    """Whether a grant for this tool allows the call of a stored request."""
    return bool(request.get("grantable")) and request["toolName"] == tool_id


def _resolved_event(request_id: str, resolution: Resolution[Decision]) -> PermissionResolved:
    decision = resolution.answer or Decision("deny")
    return PermissionResolved(
        request_id=request_id,
        decision=decision.decision if decision.grant_by is None else "allow_conversation",
        reason=resolution.reason,
        args=decision.args,
    )


PERMISSIONS: Final = CallKind(
    "permission",
    TypeAdapter(Decision),
    unknown=PermissionNotFound,
    answered=PermissionDecided,
    resolved_event=_resolved_event,
    granted=GRANTED,
)


async def _check_args(tool: ApprovableTool, decision: Decision) -> None:
    if decision.args is not None:
        await require_arguments(tool.arguments, decision.args, tool_id=tool.id)


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


async def require_arguments(
    accept: Callable[[Mapping[str, Any]], Awaitable[object]], args: Mapping[str, Any], *, tool_id: str
) -> None:
    """Raise `Invalid`, naming fields, for arguments that the tool does not accept."""
    try:
        await accept(args)
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
        log.exception("approval.check_failed", tool_id=tool_id)
        raise Invalid.field("args", "could not be checked: the tool failed to validate them") from error
