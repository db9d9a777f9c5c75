"""Which posted messages a conversation has, and in which of its runs."""

from collections.abc import Collection, Sequence

from app.conversations.branching.placement import KnownMessages, first_unshown
from app.conversations.branching.repository import answered_runs, runs_with_messages
from app.conversations.branching.tree import BranchTree
from app.conversations.records import Conversation
from app.ids import RunId
from app.platform.db import Reader
from app.runs.conversations.branching import load_tree
from app.runs.repository import unfinished_turns


async def known_messages(
    reader: Reader, conversation: Conversation, message_ids: Sequence[str], *, first_unanswered: int
) -> KnownMessages:
    """Those of these ids that name messages of the conversation, on any branch, and their runs.

    The last of them is the message that is to be placed; those since `first_unanswered` are the user's. A
    message that was answered several times does not name one run: the ids after it show which answer the
    client has.
    """
    tree = await load_tree(reader, conversation)
    known = tree.known(message_ids, current=conversation.session_id)
    last = {each: known[each] for each in message_ids[first_unanswered:-1] if each in known}
    answered = await _answered(reader, conversation, tree, last.values())
    unshown = frozenset(each for each, run_id in last.items() if run_id in answered)
    earlier = message_ids[: first_unshown(message_ids[:-1], unshown)]
    shown = [index for index, each in enumerate(earlier) if each in known]
    if not shown or len(answers := tree.answers_to(earlier[shown[-1]])) <= 1:
        return KnownMessages(known, unshown)
    # Results and reasoning have ids that begin with that of their call or message.
    named = {each: each.partition(":")[0] for each in earlier[shown[-1] + 1 :]}
    places = {run_id: tree.branch_of(run_id) for run_id in answers}
    own = await runs_with_messages(reader, str(conversation.account_id), places, set(named.values()))
    by_answer = {each: own[base] for each, base in named.items() if base in own}
    return KnownMessages({**by_answer, **known}, unshown)


async def _answered(
    reader: Reader, conversation: Conversation, tree: BranchTree, runs: Collection[RunId]
) -> Collection[RunId]:
    """Those of these runs that the model has answered; none while one is active: its client may wait."""
    if not runs:
        return ()
    unfinished = {run.run_id for run in await unfinished_turns(reader, conversation)}
    if not unfinished.isdisjoint(runs):
        return ()
    places = {run_id: tree.branch_of(run_id) for run_id in runs}
    return await answered_runs(reader, str(conversation.account_id), places)
