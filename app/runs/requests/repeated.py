"""The request of a run that repeats another one: without messages, it has those of the run it replaces."""

from dataclasses import replace

from app.conversations.branching.records import InPlaceOf
from app.errors import Conflict, Invalid
from app.ids import RunId, RunKey
from app.platform.db import Database
from app.requests.principal import Principal
from app.requests.runs import GraphRunRequest
from app.runs.records import MessageOrigin
from app.runs.repository import find_run, stored_request
from app.runs.requests.codec import RequestCodec


class MessagesNotStored(Conflict):
    """The messages of this run are not stored any more; send them with the request."""

    code = "messages_not_stored"


def origin_of(request: GraphRunRequest) -> MessageOrigin:
    """How a client of ours has posted the message: at the end of the conversation, or in place of a run."""
    if request.fork_from is None:
        return MessageOrigin()
    return MessageOrigin(place=InPlaceOf(RunId(request.fork_from)))


async def with_messages(
    database: Database, codec: RequestCodec, caller: Principal, request: GraphRunRequest
) -> tuple[GraphRunRequest, MessageOrigin]:
    """The request with the messages of the run that it replaces; and how those were posted.

    It answers the same message, so it also has the id by which a chat client knows that. Whether the run is
    of this conversation is checked when the turn is taken. Raises `Invalid`, `MessagesNotStored`, and
    `ScopeMissing` if the caller may not read the run.
    """
    replaced = RunKey(caller.account_id, RunId(request.fork_from or ""))
    async with database.snapshot() as reader:
        record = await find_run(reader, replaced)
        text = await stored_request(reader, replaced)
    if record is None:
        raise Invalid.field("forkFrom", "is not a run of this conversation")
    caller.require_reading(record.api_key_id)
    if text is None:
        raise MessagesNotStored
    request = request.model_copy(update={"messages": (await codec.decode(text)).messages})
    return request, replace(origin_of(request), message_id=record.message_id)
