"""Resuming a run of a chat: applies the decisions and tool results of the client's last message."""

from collections.abc import Callable

from app.bootstrap.services import Services
from app.http.ai_sdk.encoder import AiSdkEncoder
from app.http.ai_sdk.input import ChatRequest
from app.http.dependencies import run_key
from app.principal import Principal
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
    decided: frozenset[str] = frozenset()
    record = None
    if (message := body.decided_message) is not None:
        caller.require("runs:approve")
        run = run_key(caller, message.id)
        record = await services.chats.decide(caller, chat, run, decisions=message.decisions)
        decided = frozenset(decision.request_id for decision in message.decisions)
    elif (message := body.answered_message) is None:
        return None
    run, results = run_key(caller, message.id), message.tool_results
    answered = await services.client_tools.find_in(caller, chat, run, call_ids=results)
    if answered is None:
        return None if record is None else (record, new_encoder(run.run_id, decided=decided))
    await services.client_tools.answer(answered, results)
    return answered.record, new_encoder(
        run.run_id, decided=decided, answered=answered.calls, after=answered.after
    )
