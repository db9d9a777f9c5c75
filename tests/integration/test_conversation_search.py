"""Lists of conversations: filters, and words in titles, messages and answers."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
import pytest_asyncio

from app.auth.records import KeyRecord
from app.conversations.repository import take_turn
from app.errors import Invalid
from app.ids import RunId, RunKey, new_uuid
from app.platform.db import Database
from app.platform.pagination import PageRequest
from app.requests.attribution import NO_LABELS, LabelFilter, RunLabels
from app.runs.conversations import listing
from app.runs.conversations.records import ConversationFilter
from app.runs.records import NewRun
from app.runs.repository import finish_run
from app.simulator.script import ApiRequest, Reply, Text
from tests.e2e.agents import without_cli
from tests.e2e.stories import World, WorldOf, a_client, a_request
from tests.e2e.test_an_end_user_is_erased import erased
from tests.factories import a_final, a_new_turn, an_account
from tests.integration.conversations import conversations_over
from tests.integration.run_process import insert
from tests.integration.run_service import caller_of
from tests.integration.statements import execute

SCOPES = ("runs:write", "runs:read")


async def say(
    database: Database,
    key: KeyRecord,
    chat: str,
    question: str,
    answer: str = "",
    *,
    labels: RunLabels = NO_LABELS,
) -> str:
    """A turn of a conversation, whose title stays that of its first one; returns its run."""
    run = RunKey(key.account_id, RunId(str(new_uuid())))
    async with database.transaction() as tx:
        conversation = await take_turn(
            tx, key.account_id, a_new_turn(chat, title=question[:120], executor="messages")
        )
        new = NewRun(
            *(run, key.id, "messages:assistant", "m", "{}", question[: 16 * 1024]),
            *(b"", None, new_uuid(), conversation),
            labels=labels,
        )
        await insert(tx, new)
        await finish_run(
            tx, run, attempt=0, final=a_final(run.run_id, content=answer), report=None, events=[]
        )
    return run.run_id


async def found(database: Database, key: KeyRecord, words: str, **fields: Any) -> list[str]:
    """The state keys of the conversations with these words, newest first; all pages."""
    chosen, page = ConversationFilter(words=words, **fields), PageRequest(50)
    keys: list[str] = []
    while True:
        items, cursor = await conversations_over(database).list_conversations(caller_of(key), page, chosen)
        keys += [each.state_key for each in items]
        if cursor is None:
            return keys
        page = PageRequest.of(50, cursor)


@pytest.mark.parametrize(
    ("words", "chats"),
    [
        ("heron", ["river"]),
        ("HERON", ["river"]),
        ("flies dawn", ["river"]),
        # All words in one text, not one in the message and one in the answer.
        ("heron oslo", []),
        ('"flies at dawn"', ["river"]),
        ('"dawn flies"', []),
        ("oslo", ["trip", "river"]),
        ("oslo -ferry", ["river"]),
        ("heron or ferry", ["trip", "river"]),
        ("größe", ["trip"]),
        ("日本語", ["trip"]),
        ("ann@example.org", ["trip"]),
        ("o'hara", ["trip"]),
        ("'", None),
        ("& | ! <-> ( ) : * \\ %", None),
        ("''; DROP TABLE runs --", []),
        ("her", []),
        ("x" * 200, []),
    ],
)
async def test_words_are_found_in_titles_messages_and_answers(
    database: Database, key: KeyRecord, words: str, chats: Sequence[str] | None
) -> None:
    await say(database, key, "river", "The heron flies at dawn", "In Oslo, too.")
    await say(
        database, key, "trip", "A ferry to oslo: Größe, 日本語", "Write to ann@example.org, says O'Hara."
    )

    if chats is None:
        with pytest.raises(Invalid, match="must have a word"):
            await found(database, key, words)
    else:
        assert await found(database, key, words) == chats


async def test_the_newest_run_with_the_words_is_named(database: Database, key: KeyRecord) -> None:
    await say(database, key, "chat", "About herons", "Yes.")
    second = await say(database, key, "chat", "And now?", "A heron.")
    await say(database, key, "chat", "Thank you", "Bye.")

    async def in_run(words: str) -> RunId | None:
        chosen = ConversationFilter(words=words)
        ((one,), _) = await conversations_over(database).list_conversations(
            caller_of(key), PageRequest(5), chosen
        )
        return one.found_in_run

    assert await in_run("heron") == second
    await execute(database, "UPDATE runs SET question = NULL WHERE question LIKE 'About%'")
    assert await in_run("herons") is None


async def test_other_accounts_are_not_searched(database: Database, key: KeyRecord) -> None:
    other = await an_account(database, "other")
    await say(database, key, "chat", "heron")
    await say(database, other, "chat", "crane", "crane")

    assert await found(database, key, "heron") == ["chat"]
    assert await found(database, other, "heron") == []
    assert await found(database, key, "crane") == []


async def test_huge_texts_are_searched_at_their_beginning(database: Database, key: KeyRecord) -> None:
    # As many different words as fit, of the longest characters; and one that is too long to be one.
    many = " ".join(f"\U00020000{number:x}" for number in range(60_000))
    await say(database, key, "many", f"begin {many}", f"start {many} heron")
    await say(database, key, "long", "\U00020000" * 16_384, "y" * 200_000)

    assert await found(database, key, "begin") == await found(database, key, "start") == ["many"]
    assert await found(database, key, "heron") == []


async def test_what_cannot_be_read_as_text_hides_nothing(database: Database, key: KeyRecord) -> None:
    await say(database, key, "chat", "heron", "crane")
    await execute(database, r"""UPDATE runs SET final = '{"content": "crane \u0000 \ud800 owl"}'""")

    assert await found(database, key, "owl") == ["chat"]


async def test_a_page_examines_a_limited_number_of_turns(database: Database, key: KeyRecord) -> None:
    for number in range(3):
        await say(database, key, f"chat-{number}", "heron" if number == 0 else "crane")
    # As if the newest two had as many as a page examines.
    await execute(
        database,
        "UPDATE sessions SET turns = :turns WHERE state_key <> 'chat-0'",
        turns=listing.TURNS_PER_PAGE,
    )
    lists, chosen = conversations_over(database), ConversationFilter(words="heron")
    pages, page = [], PageRequest(50)
    while True:
        items, cursor = await lists.list_conversations(caller_of(key), page, chosen)
        pages.append([each.state_key for each in items])
        if cursor is None:
            break
        page = PageRequest.of(50, cursor)

    assert pages == [[], [], ["chat-0"]]


async def test_pages_of_a_search_have_each_conversation_once(database: Database, key: KeyRecord) -> None:
    for number in range(7):
        await say(database, key, f"chat-{number}", "heron" if number % 2 else "crane")
    keys, page = [], PageRequest(1)
    while True:
        chosen = ConversationFilter(words="heron")
        items, cursor = await conversations_over(database).list_conversations(caller_of(key), page, chosen)
        keys += [each.state_key for each in items]
        if cursor is None:
            break
        page = PageRequest.of(1, cursor)

    assert keys == ["chat-5", "chat-3", "chat-1"]


async def test_labels_are_those_of_a_run(database: Database, key: KeyRecord) -> None:
    await say(database, key, "anns", "heron", labels=RunLabels("ann", {"team": "search"}))
    await say(database, key, "anns", "crane")
    await say(database, key, "bobs", "heron", labels=RunLabels("bob", {"team": "mail"}))

    async def labelled(*labels: Any) -> list[str]:
        return await found(database, key, "heron", labels=LabelFilter(*labels))

    assert await found(database, key, "heron") == ["bobs", "anns"]
    assert await labelled("ann") == await labelled(None, ("team", "search")) == ["anns"]
    assert await labelled("ann", ("team", "mail")) == []


async def test_what_a_deleted_conversation_had_is_not_found_in_the_next_one_with_its_key(
    database: Database, key: KeyRecord
) -> None:
    await say(database, key, "chat", "heron", labels=RunLabels("ann"))
    # As it was left by releases that did not delete the contents of its runs.
    await execute(database, "DELETE FROM sessions")
    await say(database, key, "chat", "crane")

    assert await found(database, key, "heron") == []
    assert await found(database, key, "crane", labels=LabelFilter("ann")) == []
    assert await found(database, key, "crane") == ["chat"]


def model(request: ApiRequest) -> Reply:
    return Reply((Text(f"You said {request.last_text}: the answer is albatross."),))


@pytest_asyncio.fixture
async def world(world_of: WorldOf) -> World:
    return await world_of(model)


@pytest_asyncio.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    _, secret = await world.services.accounts.create_key("acme", [*SCOPES, "receipts:read"])
    async with a_client(world.url, secret) as client:
        yield client


async def ask(client: httpx.AsyncClient, text: str, **fields: Any) -> None:
    body = a_request(text, **fields) | {"graphId": "messages:assistant"}
    assert (await client.post("/v1/runs/wait", json=body)).raise_for_status().json()["ok"]


async def listed(client: httpx.AsyncClient, **query: Any) -> list[str]:
    answer = (await client.get("/v1/sessions", params=query)).raise_for_status().json()
    return [each["stateKey"] for each in answer["items"]]


@without_cli
async def test_what_is_deleted_or_erased_is_not_found(client: httpx.AsyncClient) -> None:
    for chat, user in (("a", "ann"), ("b", "bob"), ("c", "bob"), ("d", "ann")):
        await ask(client, f"heron {chat}", stateKey=chat, endUser=user, runId=f"run-{chat}")
    (await client.post("/v1/sessions/a/fork", json={"stateKey": "fork"})).raise_for_status()
    assert await listed(client, q="albatross") == ["d", "c", "b", "a"]
    # A copy has the title, and what is said in it from then on.
    assert await listed(client, q="heron") == ["fork", "d", "c", "b", "a"]

    (await client.delete("/v1/runs/run-b")).raise_for_status()
    (await client.delete("/v1/sessions/c")).raise_for_status()

    assert await listed(client, q="albatross") == ["d", "a"]
    assert await listed(client, q="heron") == ["fork", "d", "b", "a"]


@without_cli
async def test_of_an_erased_person_nothing_is_found(world: World) -> None:
    for chat, user in (("a", "erin"), ("b", "bob")):
        await ask(world.http, "heron", stateKey=chat, endUser=user)

    await erased(world, "erin")

    assert await listed(world.http, q="heron") == ["b"]
    assert await listed(world.http, endUser="erin") == []
    assert await listed(world.http, endUser="bob", q="heron") == ["b"]


@without_cli
async def test_conversations_are_filtered_by_page(client: httpx.AsyncClient) -> None:
    for number in range(4):
        user, team = ("ann", "search") if number % 2 else ("bob", "mail")
        await ask(client, f"say {number}", stateKey=f"chat-{number}", endUser=user, tags={"team": team})
    first = (await client.get("/v1/sessions", params={"endUser": "ann", "limit": 1})).json()
    second = (
        await client.get("/v1/sessions", params={"endUser": "ann", "cursor": first["nextCursor"]})
    ).json()
    moment = first["items"][0]["updatedAt"]

    assert [each["stateKey"] for each in (*first["items"], *second["items"])] == ["chat-3", "chat-1"]
    assert second["nextCursor"] is None
    assert first["items"][0]["foundInRun"] is None
    assert await listed(client, tag="team:mail") == ["chat-2", "chat-0"]
    assert await listed(client, **{"from": moment}) == ["chat-3"]
    assert await listed(client, to=moment) == ["chat-2", "chat-1", "chat-0"]


UNUSABLE: list[dict[str, str]] = [
    *({"q": ""}, {"q": " "}, {"q": "?!"}, {"q": "a" * 201}, {"q": "a\x00"}, {"tag": "team"}, {"x": "1"}),
]


@without_cli
async def test_a_query_that_cannot_be_used_is_refused_by_name(client: httpx.AsyncClient) -> None:
    for query in UNUSABLE:
        answer = await client.get("/v1/sessions", params=query)

        assert answer.status_code == 422, query
        (name,) = query
        assert name in answer.json()["detail"]
