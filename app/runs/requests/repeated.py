"""The request of a run that repeats another one: without messages, it has those of the run it replaces."""

from dataclasses import dataclass, replace

from app.errors import Conflict, Invalid
from app.ids import RunId, RunKey
from app.platform.db import Database
from app.runs.repository import find_run, stored_request
from app.runs.requests.codec import RequestCodec
from app.runs.requests.posted import PostedRun, origin_of


class MessagesNotStored(Conflict):
    """The messages of this run are not stored any more; send them with the request."""

    code = "messages_not_stored"


@dataclass(frozen=True, slots=True)
class RepeatedRequests:
    """Completes requests without messages."""

    database: Database
    codec: RequestCodec

    async def complete(self, posted: PostedRun) -> PostedRun:
        """The request with the messages of the run that it replaces; and how those were posted.

        It answers the same message, so it also has the id by which a chat client knows that. Whether the run
        is of this conversation is checked when the turn is taken. Raises `Invalid`, `MessagesNotStored`, and
        `ScopeMissing` if the caller may not read the run.
        """
        replaced = RunKey(posted.run.account_id, RunId(posted.request.fork_from or ""))
        # They may be large.
        async with self.codec.large_request(posted.run.account_id):
            async with self.database.snapshot() as reader:
                record = await find_run(reader, replaced)
                stored = await stored_request(reader, replaced)
            if record is None:
                raise Invalid.field("forkFrom", "is not a run of this conversation")
            posted.caller.require_reading(record.api_key_id, record.labels.end_user)
            if stored is None:
                raise MessagesNotStored
            messages = (await self.codec.decode(await self.codec.read(stored))).messages
        request = posted.request.model_copy(update={"messages": messages})
        origin = replace(origin_of(request), message_id=record.message_id)
        return replace(posted, request=request, origin=origin)
