"""PostedHistories: compares the earlier messages of a request with those of its conversation."""

from dataclasses import dataclass, replace

from app.conversations.branching.records import InPlaceOf
from app.conversations.history import ConversationHistory
from app.conversations.history_merge import new_messages
from app.conversations.repository import find_conversation
from app.platform.db import Database
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest
from app.runs.conversations.branching import load_tree
from app.runs.conversations.undelivered import undelivered_runs
from app.runs.conversations.view import require_reading
from app.runs.repository import unfinished_turns


@dataclass(frozen=True, slots=True)
class PostedHistories:
    """The histories that clients post with their messages."""

    database: Database
    history: ConversationHistory

    async def check(self, caller: Principal, request: GraphRunRequest, place: InPlaceOf | None) -> None:
        """Raise `HistoryConflict` if the request's earlier messages differ from those before its place.

        While a run before it is active, or if the model has not got the last messages, the history is checked
        later, when the run's turn comes. Raises `ScopeMissing` if the caller may not read the conversation.
        """
        turns = [message for message in request.messages if message.role != "system"]
        if request.state_key is None or len(turns) == 1:
            return
        async with self.database.snapshot() as reader:
            conversation = await find_conversation(reader, caller.account_id, request.state_key)
            if conversation is None:
                return
            await require_reading(reader, conversation, caller)
            tree = await load_tree(reader, conversation)
            path, up_to = tree.path(conversation.session_id), None
            if place is not None:
                if place.run_id not in tree:
                    return
                conversation = replace(conversation, session_id=tree.branch_of(place.run_id))
                path = up_to = tree.path_to(place.run_id)[:-1]
            unfinished = {run.run_id for run in await unfinished_turns(reader, conversation)}
            if not unfinished.isdisjoint(path) or await undelivered_runs(reader, conversation, tree, path):
                return
        if (stored := await self.history.read(conversation, up_to=up_to)) is not None:
            new_messages(request.messages, stored)
