"""Applies commands to runs that this process executes."""

from collections.abc import Sequence
from typing import Any, assert_never

import structlog

from app.errors import AppError, Invalid
from app.executors.client_calls import ClientToolResult
from app.executors.control import RunControl
from app.executors.waiting.records import Decision
from app.graphs.rules.modes import is_less_strict
from app.graphs.spec import GraphSpec
from app.requests.messages import SentMessage
from app.requests.principal import ScopeMissing
from app.requests.run_request import PermissionMode
from app.runs.commands import records
from app.runs.commands.answers import NotApplied
from app.runs.supervisor import ActiveRun
from app.streams.port import WriterFenced

log = structlog.get_logger(__name__)

DELIVERY_WAIT_S = 2.0
"""How long the sender of a message waits for the position at which it takes effect."""


async def apply(run: ActiveRun, command: records.Command) -> dict[str, Any]:
    """Apply a command and return its result.

    Raises what the command itself raises, and `NotApplied` if another process has taken the run over, or it
    is parked.
    """
    if run.control.parking.is_set():
        raise NotApplied("not_here")
    try:
        result = await _apply(run, command)
    except WriterFenced:
        raise NotApplied("not_here") from None
    except AppError:
        if run.is_lost:
            raise NotApplied("not_here") from None
        raise
    if run.is_lost:
        raise NotApplied("not_here")
    return result


async def _apply(run: ActiveRun, command: records.Command) -> dict[str, Any]:
    control = run.control
    match command:
        case records.Stop():
            await _stop(control, command)
        case records.Send():
            control.send(SentMessage(command.message_id, command.message, command.priority))
            position = await control.inbox.wait_for_position(command.message_id, within_s=DELIVERY_WAIT_S)
            return {"position": position}
        case records.Decide():
            decision = Decision(
                command.decision, command.args, command.message, command.stop, command.grant_by
            )
            await control.decide(command.request_id, decision)
        case records.SubmitToolResult():
            result = ClientToolResult(command.result, command.is_error)
            await control.client_calls.answer(command.tool_call_id, result)
        case records.AnswerQuestion():
            await control.questions.answer(command.request_id, command.answers)
        case records.ChangeMode(mode=mode):
            check_mode(command, run.plan.spec, current=control.approvals.mode)
            control.approvals.mode = mode
        case _:
            assert_never(command)
    return {}


async def _stop(control: RunControl, command: records.Stop) -> None:
    if command.kind == "interrupt":
        await control.interrupt(after_tool=command.after_tool)
    elif command.is_stored:
        control.cancel_stored()
    else:
        await control.cancel()


def check_mode(command: records.ChangeMode, spec: GraphSpec, *, current: PermissionMode) -> None:
    """Raise `Invalid` or `ScopeMissing` unless a run of this graph may change to the mode."""
    if command.mode not in {spec.permission_mode, *spec.permission_modes}:
        raise Invalid.field("permissionMode", f"the graph {spec.id} does not allow {command.mode!r}")
    if not command.may_loosen and is_less_strict(command.mode, than=current):
        raise ScopeMissing.of("runs:approve")


def apply_queued(run: ActiveRun, commands: Sequence[dict[str, Any]]) -> None:
    """Apply what a run got while it was queued, and which was checked then; it has not begun yet."""
    for stored in commands:
        try:
            _apply_queued(run, records.COMMANDS.validate_python(stored))
        except Exception:
            # Such as a command of a newer server. The run starts without it.
            log.exception("command.failed")


def _apply_queued(run: ActiveRun, command: records.Command) -> None:
    match command:
        case records.Send():
            run.control.send(SentMessage(command.message_id, command.message, command.priority))
        case records.ChangeMode(mode=mode):
            run.control.approvals.mode = mode
