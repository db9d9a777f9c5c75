"""Conversations of OpenAI's API before their first run, and what is refused."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest

from app.platform.clock.clock import host_time
from app.platform.pagination import PageRequest
from app.platform.storage.records import Retention
from app.platform.storage.repository import stored_bytes
from app.requests.principal import Scope
from app.runs.conversations.opened import MOST_BYTES
from tests.e2e.stories import World, a_client, a_request
from tests.integration.conftest import in_shared_world
from tests.integration.statements import execute, noted

pytestmark = in_shared_world

CHAT = "messages:assistant"
CONVERSATIONS = "/openai/v1/conversations"


def item(text: str, role: str = "user") -> dict[str, Any]:
    """A message."""
    return {"type": "message", "role": role, "content": text}


async def created(http: httpx.AsyncClient, *texts: str, **more: Any) -> str:
    """The path of a new conversation."""
    answer = await http.post(CONVERSATIONS, json={"items": [item(text) for text in texts], **more})
    assert answer.status_code == 200, answer.text
    return f"{CONVERSATIONS}/{answer.json()['id']}"


def texts_of(page: httpx.Response) -> list[tuple[str, str]]:
    """What the items of a list say."""
    assert page.status_code == 200, page.text
    return [(each["role"], each["content"][0]["text"]) for each in page.json()["data"]]


def error_of(answer: httpx.Response) -> tuple[int, str | None, str | None]:
    """The status, field and code of an error."""
    error = answer.json()["error"]
    return answer.status_code, error["param"], error["code"]


async def test_a_conversation_has_metadata_and_items_before_its_first_response(
    tenant: httpx.AsyncClient,
) -> None:
    path = await created(tenant, "One", metadata={"a": "1"})
    added = await tenant.post(f"{path}/items", json={"items": [item("Two", "assistant"), item("Three")]})
    changed = await tenant.post(path, json={"metadata": {"b": "2"}})
    read = await tenant.get(path)
    emptied = await tenant.post(path, json={"metadata": None})
    newest = await tenant.get(f"{path}/items", params={"limit": 1})
    rest = await tenant.get(f"{path}/items", params={"after": newest.json()["last_id"]})
    oldest = await tenant.get(f"{path}/items", params={"order": "asc", "include[]": "x"})
    first, _, last = (each["id"] for each in oldest.json()["data"])
    one = await tenant.get(f"{path}/items/{first}")
    followed = await tenant.delete(f"{path}/items/{first}")
    popped = await tenant.delete(f"{path}/items/{last}")
    left = await tenant.get(f"{path}/items", params={"order": "asc"})
    gone = await tenant.get(f"{path}/items/{last}")
    deleted = await tenant.delete(path)

    assert texts_of(added) == [("assistant", "Two"), ("user", "Three")]
    assert changed.json() == read.json()
    assert (read.json()["metadata"], emptied.json()["metadata"]) == ({"b": "2"}, {})
    assert (texts_of(newest), newest.json()["has_more"]) == ([("user", "Three")], True)
    assert (texts_of(rest), rest.json()["has_more"]) == ([("assistant", "Two"), ("user", "One")], False)
    assert texts_of(oldest) == texts_of(rest)[::-1] + texts_of(newest)
    assert one.json() == oldest.json()["data"][0]
    assert error_of(followed) == (409, None, "item_followed")
    assert followed.headers["x-should-retry"] == "false"
    assert popped.json() == emptied.json()
    assert texts_of(left) == texts_of(oldest)[:2]
    assert error_of(gone) == (404, None, "item_not_found")
    assert deleted.json()["object"] == "conversation.deleted"
    assert error_of(await tenant.get(path)) == (404, None, "session_not_found")
    assert error_of(await tenant.get(f"{CONVERSATIONS}/a/items")) == (404, None, "session_not_found")


WRONG: dict[str, dict[str, Any]] = {
    "items.0.type": {"items": [{"type": "function_call_output", "call_id": "x", "output": "x"}]},
    "items.0.role": {"items": [item("x", "developer")]},
    "items.1.content": {"items": [item("x"), item(" ", "assistant")]},
    "items.0.content.0.image_url": {
        "items": [{"role": "user", "content": [{"type": "input_image", "image_url": "file:///etc/passwd"}]}]
    },
    "items": {"items": [item("x" * (MOST_BYTES // 20))] * 20},
    "metadata.a": {"metadata": {"a": "x" * 513}},
    "metadata": {"metadata": {str(n): "" for n in range(17)}},
}


@pytest.mark.parametrize("field", WRONG)
async def test_a_conversation_that_cannot_be_is_refused_by_its_field(
    tenant: httpx.AsyncClient, field: str
) -> None:
    path = await created(tenant)
    wrong = {"items": [item("x")], **WRONG[field]}

    answer = await tenant.post(CONVERSATIONS, json=wrong)
    added = await tenant.post(f"{path}/items", json=wrong)

    assert error_of(answer)[:2] == (422, field)
    if "metadata" not in field:
        assert error_of(added)[:2] == (422, field)
        assert texts_of(await tenant.get(f"{path}/items")) == []


async def test_what_is_too_much_or_unknown_is_refused(tenant: httpx.AsyncClient) -> None:
    path = await created(tenant, "One")
    many = await tenant.post(f"{path}/items", json={"items": [item("x")] * 21})
    none = await tenant.post(f"{path}/items", json={"items": []})
    large = await tenant.post(path, json={"metadata": {"a": "x" * 2**20}})
    other = await created(tenant, "Other")
    known = (await tenant.get(f"{other}/items")).json()["last_id"]
    lists: list[dict[str, Any]] = [
        *({"limit": 0}, {"limit": 101}, {"order": "up"}, {"after": known}, {"after": ""}, {"cursor": "x"}),
    ]
    refused = [await tenant.get(f"{path}/items", params=params) for params in lists]

    assert [error_of(each)[:2] for each in (many, none)] == [(422, "items")] * 2
    assert error_of(large)[0] == 413
    assert [error_of(each)[:2] for each in refused] == [(422, next(iter(params))) for params in lists]


async def test_what_a_conversation_is_created_with_counts_as_stored_until_it_is_deleted(
    tenant: httpx.AsyncClient, world: World
) -> None:
    key = tenant.headers["authorization"].removeprefix("Bearer ")
    account = (await world.services.accounts.authenticate(key)).account_id

    async def stored() -> int:
        async with world.services.database.write() as tx:
            return await stored_bytes(tx, account)

    before = await stored()
    path = await created(tenant, "One")
    first = await stored()
    await tenant.post(f"{path}/items", json={"items": [item("x" * 1000)]})
    second = await stored()
    await tenant.delete(path)
    third = await stored()
    name = (await created(tenant, "Unused")).rpartition("/")[2]
    aged = "UPDATE sessions SET updated_at = now() - interval '2 days' WHERE state_key = :name"
    await execute(world.services.database, aged, name=name)
    deleted = await world.services.conversations.delete_unused(Retention(transcripts_days=1), host_time(), 20)

    assert before < first < first + 1000 < second
    assert deleted == 1
    assert [third, await stored()] == [before] * 2


async def test_a_key_that_may_only_write_reaches_those_that_it_has_created(world: World) -> None:
    async def a_writer(*scopes: Scope) -> Any:
        _, key = await world.services.accounts.create_key("default", ["runs:write", *scopes])
        return a_client(world.url, key)

    async with await a_writer() as one, await a_writer() as another, await a_writer("runs:read") as reader:
        path = await created(one, "The heron flies at dawn.")
        name = path.rpartition("/")[2]
        answers: Sequence[httpx.Response] = [
            await another.delete(path),
            await another.post("/v1/runs", json=a_request("hi", stateKey=name)),
            await another.get(path),
            await another.post(f"{path}/items", json={"items": [item("x")]}),
        ]
        read = await reader.get(f"{path}/items")
        deleted = await one.delete(path)

    assert [each.status_code for each in answers] == [403] * 4
    assert texts_of(read) == [("user", "The heron flies at dawn.")]
    assert deleted.status_code == 200


async def test_what_was_deleted_is_left_out_and_not_read_run_by_run(
    tenant: httpx.AsyncClient, world: World
) -> None:
    path = await created(tenant, metadata={"a": "1"})
    state_key, runs = path.rpartition("/")[2], []
    for number in range(6):
        request = a_request(f"Question {number}", graphId=CHAT, stateKey=state_key)
        runs.append((await tenant.post("/v1/runs/wait", json=request)).json()["runId"])
    for run_id in runs[:-1]:
        assert (await tenant.delete(f"/v1/runs/{run_id}")).status_code == 204

    with noted(world.services.database, "contents_deleted_at") as read:
        listed = await tenant.get(f"{path}/items", params={"order": "asc"})
    looked_up = [each for each in read if "runs.run_id = $" in each]
    followed = await tenant.post(f"{path}/items", json={"items": [item("x")]})
    gone = await tenant.get(f"{path}/items", params={"after": f"msg_{runs[0]}~0.in0"})

    assert texts_of(listed)[0] == ("user", "Question 5")
    assert len(looked_up) <= 2
    assert error_of(followed) == (409, None, "session_begun")
    assert error_of(gone)[:2] == (422, "after")


async def test_an_end_user_is_not_shown_one_that_the_application_has_created(
    tenant: httpx.AsyncClient, world: World
) -> None:
    caller = await world.services.accounts.authenticate(tenant.headers["authorization"].split()[1])
    ann, conversations = replace(caller, end_user="ann"), world.services.conversations
    for state_key in ((await created(tenant, "Of the application")).rpartition("/")[2], "own"):
        request = a_request("hi", graphId=CHAT, stateKey=state_key, endUser="ann")
        assert (await tenant.post("/v1/runs", json=request)).status_code == 202

    listed, _ = await conversations.list_conversations(ann, PageRequest(10))
    chats, _ = await conversations.list_chats(ann, CHAT, PageRequest(10))

    assert [each.state_key for each in listed] == [each.state_key for each in chats] == ["own"]
    for each in listed:
        await conversations.require_reading(ann, each.state_key)


async def test_a_function_that_cannot_be_used_is_left_out_also_where_the_graph_takes_none(
    tenant: httpx.AsyncClient,
) -> None:
    function = {"type": "function", "name": "f", "parameters": {"type": "nothing"}}
    body = {"model": CHAT, "input": "hi", "background": True, "tools": [function]}
    answer = await tenant.post("/openai/v1/responses", json=body)

    assert (answer.status_code, answer.headers["runtally-ignored"]) == (200, "tools")


@in_shared_world
async def test_the_request_of_a_response_that_is_polled_is_read_once(
    tenant: httpx.AsyncClient, world: World
) -> None:
    responses = "/openai/v1/responses"
    begun = (await tenant.post(responses, json={"model": CHAT, "input": "hi", "background": True})).json()
    with noted(world.services.database, "CAST(runs.request AS TEXT)") as read:
        polled = [await tenant.get(f"{responses}/{begun['id']}") for _ in range(3)]

    assert [each.json()["id"] for each in polled] == [begun["id"]] * 3
    assert len(read) == 1
