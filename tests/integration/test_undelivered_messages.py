"""Messages of runs that failed before their first line, and what the next run makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.conversations.history import ConversationHistory
from app.conversations.records import TranscriptEntry
from app.conversations.transcript_store import TranscriptStore
from app.events import AssistantFinal
from app.executors.port import INTERNAL, ExecutionFailed, RunContext
from app.ids import RunId, new_uuid
from app.platform.concurrency.offload import Offload
from app.platform.db import Database
from app.platform.pagination import PageRequest
from app.requests.messages import DocumentPart, Message, TextPart
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest
from app.runs.conversations.undelivered import UndeliveredMessages
from app.runs.requests.attachments import AttachmentRules
from app.runs.requests.codec import RequestCodec
from tests.factories import an_account
from tests.integration.conversations import KEY, conversations_over
from tests.integration.run_process import Executing
from tests.integration.run_service import Core, OpenCore, a_request, caller_of
from tests.integration.statements import execute

UNREADABLE = "[An attachment of type document that cannot be read here.]"
TOO_LARGE = "[A message is left out here: it is too large.]"


@dataclass
class FailingFirst:
    """Fails so many runs before their first line; then answers, and stores what it got as a line."""

    database: Database
    failures: int
    heard: list[Sequence[Message]] = field(default_factory=list)

    async def run(self, request: GraphRunRequest, context: RunContext) -> None:
        self.heard.append(request.messages)
        if len(self.heard) <= self.failures:
            raise ExecutionFailed(*INTERNAL)
        plan = context.plan
        assert plan.conversation is not None
        content = [
            {"type": part.type, "text": getattr(part, "text", "")} for part in request.messages[-1].parts
        ]
        line = {"type": "user", "uuid": plan.run.run_id, "timestamp": "now", "message": {"content": content}}
        entry = TranscriptEntry(line, plan.run.run_id, plan.attempt)
        await TranscriptStore(self.database).add(plan.conversation.transcript, [entry])
        await context.events.publish(AssistantFinal(content="done"))


def said(messages: Sequence[Message]) -> list[list[str]]:
    """The texts of each message, part by part."""
    return [
        [part.text if isinstance(part, TextPart) else part.type for part in each.parts] for each in messages
    ]


async def posted(core: Core, caller: Principal, *messages: Message) -> RunId:
    request = a_request(state_key=KEY).model_copy(update={"messages": list(messages)})
    record = await core.service.start(caller, request, request_id=None)
    await core.service.wait(record.key)
    return record.key.run_id


def user(*content: str | DocumentPart) -> Message:
    parts = [TextPart(type="text", text=each) if isinstance(each, str) else each for each in content]
    return Message.of(role="user", content=parts)


async def users_of(database: Database, caller: Principal) -> list[tuple[str | None, str]]:
    page = await conversations_over(database).get_page(caller.account_id, KEY, limit=100)
    messages = [entry.message for entry in page.entries]
    return [(each.run_id, each.content) for each in messages if each.type == "user_message"]


async def test_what_fails_again_is_passed_on_with_what_it_was_to_pass_on(
    open_core: OpenCore, database: Database
) -> None:
    executor = FailingFirst(database, failures=3)
    async with open_core(executor=executor) as core:
        caller = caller_of(await an_account(database))
        runs = [await posted(core, caller, user(each)) for each in ("M1", "M2", "M3", "M4", "M5")]

    assert [said(each) for each in executor.heard] == [
        [["M1"]],
        [["M1", "M2"]],
        [["M1", "M2", "M3"]],
        [["M1", "M2", "M3", "M4"]],
        [["M5"]],
    ]
    assert await users_of(database, caller) == list(zip(runs, ("M1", "M2", "M3", "M4", "M5"), strict=True))


async def test_a_history_that_came_with_the_first_of_them_is_passed_on_before_them(
    open_core: OpenCore, database: Database
) -> None:
    executor = FailingFirst(database, failures=1)
    history = [user("H1"), Message.of(role="assistant", content="h1")]
    async with open_core(executor=executor) as core:
        caller = caller_of(await an_account(database))
        await posted(core, caller, *history, user("M1"))
        await posted(core, caller, user("M2"))

    assert said(executor.heard[1]) == [["H1"], ["h1"], ["M1", "M2"]]


@pytest.mark.parametrize(
    ("lines", "heard"),
    [
        # The CLI writes it about a question, before the question itself.
        ([{"type": "queue-operation"}], ["M1", "M2"]),
        ([{"type": "queue-operation"}, {"type": "user", "message": {"content": "M1"}}], ["M2"]),
    ],
)
@pytest.mark.parametrize("calls", [0, 1])
async def test_a_run_is_passed_on_unless_the_transcript_has_its_message(
    open_core: OpenCore, database: Database, lines: list[dict[str, Any]], heard: list[str], calls: int
) -> None:
    executor = FailingFirst(database, failures=1)
    async with open_core(executor=executor) as core:
        caller = caller_of(await an_account(database))
        first = await posted(core, caller, user("M1"))
        (conversation,), _ = await conversations_over(database).list_conversations(caller, PageRequest(1))
        entries = [TranscriptEntry({**line, "uuid": str(new_uuid())}, first) for line in lines]
        await TranscriptStore(database).add(conversation.transcript, entries)
        await execute(
            database,
            "UPDATE runs SET meters = json_build_object('gateway', CAST(:calls AS int))",
            calls=calls,
        )
        await posted(core, caller, user("M2"))

    assert said(executor.heard[1]) == [heard]


async def test_of_a_release_that_deletes_the_request_the_text_is_passed_on(
    open_core: OpenCore, database: Database
) -> None:
    executor = FailingFirst(database, failures=2)
    async with open_core(executor=executor) as core:
        caller = caller_of(await an_account(database))
        await posted(core, caller, user("M1", DocumentPart.of(type="document", text="a dot")))
        await execute(database, "UPDATE runs SET request = NULL")
        await posted(core, caller, user("M2"))

    assert said(executor.heard[1]) == [["M1", "M2"]]


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({}, ["M1", "document", "document", "M2", "M3"]),
        ({"rules": AttachmentRules(max_count=1)}, ["M1", UNREADABLE, "document", "M2", "M3"]),
        ({"rules": AttachmentRules(max_bytes=5)}, ["M1", UNREADABLE, UNREADABLE, "M2", "M3"]),
        ({"max_bytes": 700}, [TOO_LARGE, "M2", "M3"]),
    ],
)
async def test_they_are_passed_on_as_far_as_they_are_allowed_and_fit(
    open_core: OpenCore, database: Database, limits: dict[str, Any], kept: list[str]
) -> None:
    found: list[Sequence[Message]] = []

    async def do(context: RunContext) -> None:
        history = ConversationHistory(TranscriptStore(database), tool_id_of=str)
        given = {"codec": RequestCodec(Offload()), "rules": AttachmentRules(), **limits}
        request = a_request(prompt=f"M{len(found) + 1}")
        undelivered = UndeliveredMessages(database, history, **given)
        found.append((await undelivered.add(request, context.plan)).messages)
        raise ExecutionFailed(*INTERNAL)

    async with open_core(executor=Executing(do)) as core:
        caller = caller_of(await an_account(database))
        documents = [DocumentPart.of(type="document", text="a dot " * 100) for _ in range(2)]
        await posted(core, caller, user("M1", *documents))
        await posted(core, caller, user("M2"))
        await posted(core, caller, user("M3"))

    assert said(found[2]) == [kept]
