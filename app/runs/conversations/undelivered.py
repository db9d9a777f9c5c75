"""UndeliveredMessages: the messages of runs that ended before the transcript had them.

A run may be cancelled while it waits, or end before its first line of the transcript: a CLI writes a message
some time after it has called a model. The conversation shows its message, so the next run passes it on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.conversations.branching.records import PassedOn
from app.conversations.branching.repository import runs_with_lines
from app.conversations.branching.tree import BranchTree
from app.conversations.history import ConversationHistory
from app.conversations.history_merge import HistoryConflict, new_messages
from app.conversations.messages import ConversationMessage, MessageType
from app.conversations.records import Conversation
from app.executors.port import FIRST_ATTEMPT, RunPlan
from app.ids import RunId
from app.platform.db import Database, Reader
from app.requests.messages import ContentPart, Message, TextPart
from app.requests.run_request import GraphRunRequest
from app.runs.conversations.branching import load_tree
from app.runs.conversations.records import StoredQuestion
from app.runs.conversations.repository import follows_success, questions_of, store_passed_on
from app.runs.requests.attachments import AttachmentRules, unreadable
from app.runs.requests.codec import RequestCodec

_MAX_BYTES = 32 * 2**20
"""The provider takes no more in one request."""

_TOO_LARGE = TextPart(type="text", text="[A message is left out here: it is too large.]")


async def undelivered_runs(
    reader: Reader, conversation: Conversation, tree: BranchTree, path: Sequence[RunId]
) -> list[RunId]:
    """The ended runs at the end of this path whose messages the transcript of its branch does not have."""
    candidates = tree.last_unsuccessful(path)
    if not candidates:
        return []
    with_lines = await runs_with_lines(reader, conversation.transcript, candidates)
    last = max((index for index, run_id in enumerate(candidates, 1) if run_id in with_lines), default=0)
    return candidates[last:]


@dataclass(frozen=True, slots=True)
class UndeliveredMessages:
    """Adds them to the message of the next run, when its turn has come."""

    database: Database
    history: ConversationHistory
    codec: RequestCodec
    rules: AttachmentRules
    max_bytes: int = _MAX_BYTES
    """Of the requests whose messages are passed on together."""

    async def add(self, request: GraphRunRequest, plan: RunPlan) -> GraphRunRequest:
        """The request of a run that begins, with the messages that are to be passed on in its last one.

        Where a posted history does not have them, its client does not show them, and they are not passed on.
        """
        if plan.conversation is None or not (questions := await self._find(plan.conversation, plan)):
            return request
        stored = await self.history.read(plan.conversation)
        earlier, undelivered = await self._read(questions, is_first=stored is None)
        if not undelivered:
            return request
        history = [] if stored is None else stored
        shown = [*earlier, *(message for _, message in undelivered)]
        if not _has_shown(request, [*history, *map(_as_shown, shown)]):
            return request
        *system, last = [
            each for each in request.messages if each.role == "system" or each is request.messages[-1]
        ]
        contents = self.rules.fitting([self._allowed(each.parts) for each in shown], new=last.parts)
        of_earlier, passed = contents[: len(earlier)], contents[len(earlier) :]
        passed_on = [
            PassedOn(run_id, len(content))
            for (run_id, _), content in zip(undelivered, passed, strict=True)
            if content
        ]
        async with self.database.transaction() as tx:
            await store_passed_on(tx, plan.run, passed_on, attempt=plan.attempt)
        turns = [
            Message.of(role=message.role, content=content)
            for message, content in zip(earlier, of_earlier, strict=True)
            if content
        ]
        joined = [*(part for content in passed for part in content), *last.parts]
        messages = [*system, *turns, Message.of(role="user", content=joined)]
        return request.model_copy(update={"messages": messages})

    async def _find(self, conversation: Conversation, plan: RunPlan) -> list[StoredQuestion]:
        if conversation.turns == 1 or (plan.beginning is not None and plan.beginning.follows_success):
            return []
        async with self.database.read() as reader:
            if await follows_success(reader, conversation):
                return []
        run_id = plan.run.run_id
        async with self.database.snapshot() as reader:
            if plan.attempt > FIRST_ATTEMPT and await runs_with_lines(
                reader, conversation.transcript, [run_id]
            ):
                # The agent continues, with what the earlier attempt has passed on.
                return []
            tree = await load_tree(reader, conversation)
            path = tree.path_to(run_id)[:-1] if run_id in tree else []
            found = await undelivered_runs(reader, conversation, tree, path)
            return await questions_of(reader, conversation.account_id, found, max_bytes=self.max_bytes)

    async def _read(
        self, questions: Iterable[StoredQuestion], *, is_first: bool
    ) -> tuple[list[Message], list[tuple[RunId, Message]]]:
        """The history with which the conversation begins, and the messages.

        `is_first`: the transcript is empty, so that a history which came with the first of them is missing.
        """
        earlier: list[Message] = []
        found: list[tuple[RunId, Message]] = []
        for each in questions:
            messages = await self._messages_of(each)
            if messages and is_first and not found:
                earlier = messages[:-1]
            found += [(each.run_id, message) for message in messages[-1:]]
        return earlier, found

    async def _messages_of(self, question: StoredQuestion) -> list[Message]:
        if question.request is not None:
            messages = await self.codec.decode_messages(await self.codec.read(question.request))
            return [message for message in messages if message.role != "system"]
        # Without a request only the text is known: the release before stored no more. Nothing is if the run's
        # contents were deleted.
        is_left_out = question.question is not None and not question.fits
        content = [_TOO_LARGE] if is_left_out else question.question
        return [Message.of(role="user", content=content)] if content else []

    def _allowed(self, parts: Sequence[ContentPart]) -> list[ContentPart]:
        """The parts as far as they are allowed now, and not empty."""
        return [
            part if isinstance(part, TextPart) or self.rules.allow(part) else unreadable(part.type)
            for part in parts
            if not isinstance(part, TextPart) or part.text.strip()
        ]


def _has_shown(request: GraphRunRequest, conversation: Sequence[ConversationMessage]) -> bool:
    """Whether the client shows the end of this conversation, as far as it has posted what it shows."""
    if sum(message.role != "system" for message in request.messages) == 1:
        return True
    try:
        new_messages(request.messages, conversation)
    except HistoryConflict:
        return False
    return True


def _as_shown(message: Message) -> ConversationMessage:
    kind: MessageType = "user_message" if message.role == "user" else "assistant_message"
    return ConversationMessage(kind, None, None, content=message.text)
