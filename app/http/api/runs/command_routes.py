"""Commands to running runs: send a message, stop, decide, change."""

from typing import Annotated
from uuid import uuid5

from fastapi import APIRouter, Path

from app.http.admission.checks import CheckedRoute, large_body, optional_body, small_body, text_body
from app.http.api.runs import command_schemas
from app.http.api.runs.schemas import AcceptedRunResponse, FeedbackResponse
from app.http.dependencies import (
    Approver,
    IdempotencyKey,
    RunIdParam,
    ServicesDep,
    Writer,
    run_key,
    visible_run,
)
from app.ids import new_uuid
from app.runs.commands.records import AnswerQuestion, ChangeMode, Decide, Send, SubmitToolResult

router = APIRouter(route_class=CheckedRoute, prefix="/v1/runs/{runId}", tags=["control"])


@router.post(
    "/messages", status_code=202, dependencies=[large_body], summary="Send a message to a running agent"
)
async def send_message(
    run_id: RunIdParam,
    body: command_schemas.MessageToRun,
    services: ServicesDep,
    caller: Writer,
    key: IdempotencyKey,
) -> command_schemas.SentToRun:
    """Deliver a message `now`, at the `next` opportunity, or `later` in a turn of its own.

    Responds when the message has taken effect, or without a position after two seconds.
    """
    services.attachments.check_content(body.content)
    # The same key always means the same message of the same run.
    message_id = str(new_uuid() if key is None else uuid5(caller.account_id, f"{run_id}/{key}"))
    command = Send(message_id=message_id, content=body.content, priority=body.priority)
    run = await visible_run(services, caller, run_id)
    answer = await services.commands.submit(run.key, command)
    return command_schemas.SentToRun(run_id=run_id, message_id=message_id, position=answer["position"])


@router.post("/interrupt", status_code=202, dependencies=[optional_body], summary="Stop the current turn")
async def interrupt_run(
    run_id: RunIdParam,
    services: ServicesDep,
    caller: Writer,
    body: command_schemas.Interruption | None = None,
) -> AcceptedRunResponse:
    """Stop the current turn. Pending messages are answered next; without any, the run ends.

    A run that has ended is not changed.
    """
    after_tool = body is not None and body.after == "tool"
    run = await services.commands.stop(run_key(caller, run_id), "interrupt", after_tool=after_tool)
    return AcceptedRunResponse(run_id=run.key.run_id, status=run.status)


@router.post("/cancel", status_code=202, summary="Cancel a run")
async def cancel_run(run_id: RunIdParam, services: ServicesDep, caller: Writer) -> AcceptedRunResponse:
    """Request a run to stop: it ends with `error: aborted`. A run that has ended is not changed."""
    run = await services.commands.stop(run_key(caller, run_id), "cancel")
    return AcceptedRunResponse(run_id=run.key.run_id, status=run.status)


@router.post("/permissions/{requestId}", dependencies=[text_body], summary="Decide about a tool call")
async def decide(
    run_id: RunIdParam,
    request_id: Annotated[str, Path(alias="requestId")],
    body: command_schemas.PermissionDecision,
    services: ServicesDep,
    caller: Approver,
) -> command_schemas.DecidedPermission:
    """Allow a tool call that waits for consent, optionally with other arguments, or deny it.

    `allow_conversation` is for a request with `grantable: true`. A `budget_reached` is allowed with
    `args: {"maxBudgetUsd": "2.50"}`, a higher limit, or denied, which ends the run.
    """
    command = Decide(
        request_id=request_id,
        decision="deny" if body.decision == "deny" else "allow",
        args=body.args,
        message=body.message,
        stop=body.stop,
        grant_by=caller.api_key_id if body.decision == "allow_conversation" else None,
    )
    await services.commands.submit(run_key(caller, run_id), command)
    return command_schemas.DecidedPermission(run_id=run_id, request_id=request_id, decision=body.decision)


@router.post("/tool-results/{toolCallId}", dependencies=[text_body], summary="Answer a call of a client tool")
async def submit_tool_result(
    run_id: RunIdParam,
    tool_call_id: Annotated[str, Path(alias="toolCallId")],
    body: command_schemas.ToolResultOfClient,
    services: ServicesDep,
    caller: Writer,
) -> command_schemas.SubmittedToolResult:
    """Return the result of a `client_tool_call` to the model: any JSON, or the text of an error.

    The same result may be sent again.
    """
    run = await visible_run(services, caller, run_id)
    command = SubmitToolResult(tool_call_id=tool_call_id, result=body.result, is_error=body.is_error)
    await services.commands.submit(run.key, command)
    return command_schemas.SubmittedToolResult(run_id=run_id, tool_call_id=tool_call_id)


@router.post("/questions/{requestId}", dependencies=[text_body], summary="Answer a question")
async def answer_question(
    run_id: RunIdParam,
    request_id: Annotated[str, Path(alias="requestId")],
    body: command_schemas.QuestionAnswers,
    services: ServicesDep,
    caller: Writer,
) -> command_schemas.AnsweredQuestion:
    """Answer all questions of a `question` event, or decline to. The same answers may be sent again."""
    run = await visible_run(services, caller, run_id)
    await services.commands.submit(run.key, AnswerQuestion(request_id=request_id, answers=body.answers))
    return command_schemas.AnsweredQuestion(run_id=run_id, request_id=request_id)


@router.patch("", dependencies=[small_body], summary="Change a running run")
async def change_run(
    run_id: RunIdParam, body: command_schemas.RunChange, services: ServicesDep, caller: Writer
) -> command_schemas.ChangedRun:
    """Change the permission mode of further tool calls, within what the graph allows.

    A more permissive mode needs `runs:approve` as well.
    """
    command = ChangeMode(mode=body.permission_mode, may_loosen=caller.may("runs:approve"))
    await services.commands.submit(run_key(caller, run_id), command)
    return command_schemas.ChangedRun(run_id=run_id, permission_mode=body.permission_mode)


@router.put("/feedback", dependencies=[small_body], summary="Rate a run's answer")
async def give_feedback(
    run_id: RunIdParam, body: command_schemas.FeedbackRequest, services: ServicesDep, caller: Writer
) -> FeedbackResponse:
    """Keep what a person thinks of the answer with the run, in place of earlier feedback.

    It is deleted with the run's contents.
    """
    run = await visible_run(services, caller, run_id)
    feedback = await services.runs.give_feedback(run.key, body.rating, body.note)
    return FeedbackResponse.model_validate(feedback)
