"""Starting and continuing the runs of responses."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from app.bootstrap.services import Services
from app.errors import Invalid
from app.graphs.spec import GraphSpec
from app.http.openai.answer import AnswerOptions, Received
from app.http.openai.continuing import continue_run, run_of_graph
from app.http.openai.notice import Notice
from app.http.openai.responses.encoder import ResponseEncoder
from app.http.openai.responses.input import ResponseRequest
from app.requests.messages import Message
from app.requests.principal import Principal
from app.runs.conversations.opened import drop_messages, is_created, opened_conversation
from app.runs.records import RunRecord
from app.runs.requests.posted import Posting


async def continue_response(
    services: Services, caller: Principal, body: ResponseRequest
) -> tuple[RunRecord, Received] | None:
    """The run that the items continue, and what their client has of it; None if they start one.

    Raises the errors of `continue_run`.
    """
    waiting = body.history.waiting
    if body.previous is not None and not body.results and not body.decisions:
        waiting = await _where_it_waits(services, caller, body)
    return await continue_run(services, caller, body, waiting)


async def start_response(
    services: Services, caller: Principal, graph: GraphSpec, body: ResponseRequest, posting: Posting
) -> RunRecord:
    """Start the run that answers the last message, in the conversation that is named or found."""
    chats = services.stateless_chats
    state_key = None if body.conversation is None else body.conversation.id
    if (again := await chats.posted_before(caller, state_key, **posting)) is not None:
        return again
    body.require_answerable(graph)
    tools, schemas = await services.client_tools.usable(caller, body.described_tools)
    known: dict[str, Any] = {"tools": tools, "rules": services.attachments, "schemas": schemas}
    if body.previous is not None:
        previous = await run_of_graph(services, caller, body.previous.run_id, body.model)
        if previous.state_key is None:
            raise Invalid.field("previous_response_id", "must be of a response in a conversation")
        after = partial(body.next_message, after=previous.key.run_id, **known)
        return await chats.start_after(caller, previous, after, **posting)
    if state_key is not None:
        return await _start_in(services, caller, body, state_key, known, posting)
    message_in = partial(body.chat_message, **known)
    return await chats.start(caller, body.opening(caller), message_in, body.last_answer, **posting)


async def _start_in(
    services: Services,
    caller: Principal,
    body: ResponseRequest,
    state_key: str,
    known: dict[str, Any],
    posting: Posting,
) -> RunRecord:
    """Start the next run of a conversation, or its first one; raises `ConversationNotFound`."""
    chats, conversations = services.stateless_chats, services.conversations
    earlier: Sequence[Message] = ()
    if is_created(state_key):
        earlier = (await opened_conversation(conversations, caller, state_key)).opening.messages
    if earlier:
        first = body.first_message(state_key, earlier, **known)
        if (record := await chats.start_first(caller, first, **posting)) is not None:
            await drop_messages(conversations, caller, state_key)
            return record
    # Perhaps it has begun with the run of this very request, posted twice at once.
    if (again := await chats.posted_before(caller, state_key, **posting)) is not None:
        return again
    return await chats.start_new(caller, body.next_message(state_key, after=None, **known), **posting)


async def _where_it_waits(services: Services, caller: Principal, body: ResponseRequest) -> Notice | None:
    """Where the previous response has ended, if that was for a person."""
    if (previous := body.previous) is None:
        return None
    record = await run_of_graph(services, caller, previous.run_id, body.model)
    options = AnswerOptions(body.model, is_object=False, has_usage=False, page="")
    encoder = ResponseEncoder(record, options, Received(previous.after))
    encoder.encode(await services.runs.events(record.key))
    if encoder.waits_for_client:
        raise Invalid.field("input", "must hold the results of the calls that end the previous response")
    if not encoder.waits_for_person:
        return None
    # Until something is decided, it is the same response.
    return Notice(previous.run_id, encoder.position if encoder.ended else previous.after)
