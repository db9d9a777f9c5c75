"""What a person does with each release of @ag-ui/client, what appears, what the model got, what is billed."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from app.executors.messages_api.exchange import CUT_OFF_PROMPT
from app.simulator.script import Answer, ApiRequest, HttpError, Reply, Text, ToolUse, blocks_of, text_of
from app.simulator.server import RecordedMessage
from tests.clients.node import node
from tests.conftest import a_database
from tests.e2e.stories import KEY, a_world
from tests.e2e.the_bill import bill, wire
from tests.graph_files import graph_files

pytestmark = pytest.mark.long

CLIENTS = {
    "0.0.40": "ag-ui-0.0.40",
    "0.0.53": "ag-ui-0.0.53",
    "0.0.59": "ag-ui-0.0.59",
    "current": "@ag-ui/client",
}
COUNT = "one two three four five six seven"


def answer(request: ApiRequest) -> Answer:
    """The scripted model's."""
    prompt = request.last_text.partition(" (")[0]
    if prompt == "slow":
        return Reply([Text(COUNT)], delta_delay_s=0.05)
    if prompt in {"fail", CUT_OFF_PROMPT}:
        return HttpError(400, "invalid_request_error")
    if prompt == "break off":
        return Reply([Text(COUNT)], error_after=(5, "invalid_request_error"))
    if prompt == "pick":
        return Reply([ToolUse("client-pick", {})])
    return Reply([Text(f"Answer {len(request.messages)} to {prompt or 'the tool'}.")])


@dataclass(frozen=True, slots=True)
class Played:
    """What each client showed, what the model received and sent, and all receipts."""

    shown: dict[str, dict[str, list[dict[str, Any]]]]
    requests: list[ApiRequest]
    sent: list[RecordedMessage]
    receipts: list[dict[str, Any]]

    def screens(self, client: str, story: str) -> list[list[tuple[str, str]]]:
        """Roles and texts of the messages after each step."""
        steps = self.shown[client][story]
        assert {step["error"] for step in steps[:-1]} == {"invalid_request" if story == "failures" else None}
        assert steps[-1]["error"] is None
        return [[(role, content) for role, content in step["messages"]] for step in steps]

    def received(self, client: str, story: str) -> list[ApiRequest]:
        """The model's requests of a story."""
        mark = f"({client}-{story})"
        return [each for each in self.requests if mark in text_of(each.messages[0]["content"])]

    def conversations(self, client: str, story: str) -> list[list[tuple[str, str]]]:
        """Roles and texts of each of these requests' messages."""
        return [
            [(message["role"], text_of(message["content"])) for message in request.messages]
            for request in self.received(client, story)
        ]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """One server and one program: each client's stories at once."""
    directory = tmp_path_factory.mktemp("ag-ui")
    graphs = graph_files(directory, helper="---\ndescription: d\nclient_tools: true\n---\nHelp.\n")
    async with (
        a_database(postgres) as database_url,
        a_world(directory, database_url, answer, **graphs) as world,
    ):
        given = {"url": world.url, "key": KEY, "clients": CLIENTS}
        shown = json.loads(await node("ag_ui_stories.mjs", given=json.dumps(given)))
        receipts = (await world.http.get("/v1/receipts", params={"limit": 100})).json()["items"]
        return Played(shown, list(world.simulator.requests), list(world.simulator.sent), receipts)


each_client = pytest.mark.parametrize("client", CLIENTS)


def said(*texts: str) -> list[tuple[str, str]]:
    """These texts, by turns of a person and of the model."""
    return [("assistant" if number % 2 else "user", text) for number, text in enumerate(texts)]


@each_client
def test_the_next_message_after_stop_follows_the_whole_answer(played: Played, client: str) -> None:
    """The run goes on without its reader; the next one waits for it, and shows what was missed."""
    stopped, after = played.screens(client, "stop")

    slow = f"slow ({client}-stop)"
    # What has arrived may be read after the Stop.
    (asked, (role, text)) = stopped
    assert (asked, role) == (("user", slow), "assistant")
    assert text.startswith("one two three")
    assert COUNT.startswith(text)
    assert after == said(slow, COUNT, "next", "Answer 3 to next.")
    assert played.conversations(client, "stop") == [after[:1], after[:3]]


@each_client
def test_an_answer_is_repeated_and_a_message_edited(played: Played, client: str) -> None:
    first, blue, repeated, red, after = played.screens(client, "branches")

    assert first == said(f"first ({client}-branches)", "Answer 1 to first.")
    assert repeated == blue == [*first, *said("BLUE", "Answer 3 to BLUE.")]
    assert red == [*first, *said("RED", "Answer 3 to RED.")]
    assert after == [*red, *said("third", "Answer 5 to third.")]
    received = played.conversations(client, "branches")
    assert received == [screen[:-1] for screen in (first, blue, repeated, red, after)]


@each_client
def test_an_image_reaches_the_model_and_stays(played: Played, client: str) -> None:
    """Older releases send it as a `binary` part."""
    looked, after = played.screens(client, "image")

    kind = "image" if client == "current" else "binary"
    assert looked == said(f"look ({client}-image) {kind}", "Answer 1 to look.")
    assert after == [*looked, *said("next", "Answer 3 to next.")]
    for request in played.received(client, "image"):
        (block,) = blocks_of(request.messages[0], "image")
        assert block["source"]["media_type"] == "image/png"


@each_client
def test_a_tool_of_the_client_is_called(played: Played, client: str) -> None:
    asked, answered, after = played.screens(client, "clientTool")

    assert asked == said(f"pick ({client}-clientTool)", "pick")
    assert answered == [*asked, ("tool", "blue"), ("assistant", "Answer 3 to the tool.")]
    assert after == [*answered, *said("next", "Answer 5 to next.")]
    _, with_result, _ = played.received(client, "clientTool")
    (result,) = with_result.tool_results
    assert "blue" in str(result["content"])
    assert played.conversations(client, "clientTool")[-1][-2:] == after[-3:-1]


@each_client
def test_a_conversation_goes_on_after_errors(played: Played, client: str) -> None:
    """The model has also been asked to continue: the one thing that it got and a person does not see."""
    failed, broken, after = played.screens(client, "failures")

    assert failed == said(f"fail ({client}-failures)")
    assert broken == [*failed, *said("break off", "one two")]
    assert after == [*broken, *said("next", "Answer 5 to next.")]
    continued = [*broken, ("user", CUT_OFF_PROMPT)]
    assert played.conversations(client, "failures") == [
        *(failed, broken[:2], continued, [*continued, ("user", "next")])
    ]


def test_each_message_of_the_model_is_billed_once(played: Played) -> None:
    assert bill(played.receipts) == wire(played.sent)
    conversations = {receipt["runId"].rpartition("-")[0] for receipt in played.receipts}
    assert conversations == {f"{client}-{story}" for client in CLIENTS for story in played.shown[client]}
