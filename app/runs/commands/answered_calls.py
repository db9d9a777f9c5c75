"""Answers to the calls of a run that no process executes; pure."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, assert_never

from app.events import ControlEvent
from app.executors.approvals import PERMISSIONS, granted_tool
from app.executors.client_calls import CLIENT_TOOL_CALLS, ClientToolResult
from app.executors.waiting.budget import BUDGET, require_higher
from app.executors.waiting.calls import CallKind
from app.executors.waiting.port import StoredCall
from app.executors.waiting.questions import QUESTIONS, asked_by, reply_to
from app.executors.waiting.records import Decision
from app.runs.commands.records import AnswerQuestion, Decide, SubmitToolResult

AnswerCommand: TypeAlias = Decide | AnswerQuestion | SubmitToolResult


def answered_call(command: AnswerCommand) -> tuple[str, Sequence[CallKind[Any]]]:
    """The id of the call that a command answers, and which kinds it may be of."""
    match command:
        case Decide():
            return command.request_id, (PERMISSIONS, BUDGET)
        case AnswerQuestion():
            return command.request_id, (QUESTIONS,)
        case SubmitToolResult():
            return command.tool_call_id, (CLIENT_TOOL_CALLS,)
        case _:
            assert_never(command)


def answer_of(command: AnswerCommand, call: StoredCall) -> object:
    """The answer to this call; raises `Invalid` for one with which it keeps waiting.

    Changed arguments are validated when the run goes on, too: the tools are where its graph is executed.
    """
    match command:
        case Decide():
            decision = Decision(
                command.decision, command.args, command.message, command.stop, command.grant_by
            )
            if call.kind == BUDGET.name:
                require_higher(call.request, decision)
            elif command.grant_by is not None:
                granted_tool(call.request)
            return decision
        case AnswerQuestion():
            return reply_to(asked_by(call), command.answers)
        case SubmitToolResult():
            return ClientToolResult(command.result, command.is_error).kept
        case _:
            assert_never(command)


def resolved_events(calls: Sequence[StoredCall]) -> Iterator[ControlEvent]:
    """How the calls that a run was parked with are resolved when it is stopped."""
    kinds: dict[str, CallKind[Any]] = {
        kind.name: kind for kind in (PERMISSIONS, QUESTIONS, CLIENT_TOOL_CALLS, BUDGET)
    }
    for call in calls:
        kind = kinds[call.kind]
        if call.is_parked and kind.resolved_event is not None:
            yield kind.resolved_event(
                call.call_id, kind.resolution(call.resolved_by or "run_stopped", call.answer)
            )
