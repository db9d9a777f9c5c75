"""Resuming a run of a chat: applies the decisions and tool results of the client's last message."""

from collections.abc import Callable
from functools import partial

from app.bootstrap.services import Services
from app.http.ai_sdk.encoder import AiSdkEncoder
from app.http.ai_sdk.input import ChatRequest
from app.http.dependencies import run_key
from app.requests.principal import Principal
from app.runs.chats import Chat
from app.runs.records import RunRecord


async def continue_run(
    services: Services,
    caller: Principal,
    chat: Chat,
    body: ChatRequest,
    new_encoder: Callable[..., AiSdkEncoder],
) -> tuple[RunRecord, AiSdkEncoder] | None:
    """The run whose calls the posted message answers, with the encoder of what follows them.

    None if it posts a new message. Raises `ScopeMissing`, `RunNotFound`, `PermissionNotFound`.
    """
    decided = None
    if (message := body.decided_message) is not None:
        caller.require("runs:approve")
        run = run_key(caller, message.id)
        decisions = [
            decision.model_copy(update={"grant_by": caller.api_key_id})
            if body.approve_for_conversation and decision.decision == "allow"
            else decision
            for decision in message.decisions
        ]
        decided = await services.chats.decide(caller, chat, run, decisions=decisions)
    elif (message := body.answered_message) is None:
        return None
    run, results = run_key(caller, message.id), message.tool_results
    answered = await services.client_tools.find_in(caller, chat, run, call_ids=results)
    if decided is not None:
        new_encoder = partial(new_encoder, decided=decided.request_ids, after=decided.after)
    if answered is None:
        return None if decided is None else (decided.record, new_encoder(run.run_id))
    await services.client_tools.answer(answered, results)
    after = max(answered.after, 0 if decided is None else decided.after)
    return answered.record, new_encoder(run.run_id, answered=answered.calls, after=after)
