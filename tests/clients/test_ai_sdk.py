"""Chats of the Vercel AI SDK against a running server: the oldest release with this wire, and the newest."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.simulator.script import Answer, ApiRequest, Block, Hold, HttpError, Reply, Text, ToolUse, text_of
from tests.clients.node import compile_typescript, node
from tests.conftest import a_database
from tests.e2e.agents import CLAUDE, MESSAGES, named_by_caller
from tests.e2e.office import MAIL, office, settings
from tests.e2e.stories import CLOCK, KEY, a_world
from tests.e2e.test_the_agent_asks import COLOR
from tests.web_pages import SNOW, a_fetch, a_search, cited, failed

pytestmark = pytest.mark.long

ODD = 'one\u2028two\u2029three\u0085four\r\nfive \U0001f469\u200d\U0001f680 "six" \\ </script>'
PICK = "mcp__runtally__client-pick_color"
HUGE = "x" * 1_000_000
ANSWERS: dict[str, list[Block]] = {
    "odd text": [Text(ODD)],
    "a long line": [Text(HUGE)],
    "the time": [Text("Let me see."), ToolUse(CLOCK, {"timezone": "UTC"})],
    "a search": [
        *(Text("Let me look. "), *a_search(), Text("It snows.", citations=[cited(), cited()])),
        *(Text(" Bye.", citations=[cited()]), *a_fetch(content=failed("web_fetch", "url_not_allowed"))),
    ],
    "a bad call": [ToolUse(CLOCK, {"timezone": "Mars/Olympus"})],
    "ask me": [ToolUse("AskUserQuestion", {"questions": [COLOR]})],
    "hold on": [Text("one two three four")],
    "stay": [Text("one two three four")],
    "pick colors": [
        Text("Look."),
        *(
            ToolUse(PICK, {"about": "sky"}),
            ToolUse(CLOCK, {"timezone": "UTC"}),
            ToolUse(PICK, {"about": "sea"}),
        ),
    ],
    "pick nothing": [ToolUse(PICK, {"about": "nothing"})],
}
ANSWERED = {
    "the time": ["Let me see.", "So be it."],
    "a search": ["Let me look. \nIt snows.\n Bye."],
}
"""What the model has said before it is asked a second time."""
RELEASES = {"ai-oldest": MESSAGES, "ai": MESSAGES}
"""The chats of each go to the graphs of one executor."""
BETWEEN = {"ai-6": (CLAUDE, "text", "turns", "approve", "refused", "leave")}
"""The executor of its chats, and the scenarios that it plays: starting the CLI takes most of their time."""


class Model:
    """The scripted model's replies, by message."""

    def __init__(self) -> None:
        self.holds: list[Hold] = []
        self.failed: list[str] = []
        """The messages whose first answer failed."""

    def __call__(self, request: ApiRequest) -> Answer:
        if request.tool_results:
            return Reply([Text("So be it.")])
        prompt = request.last_text
        if prompt == "let go":
            self.let_go()
        return self._mails(prompt) if prompt.startswith("write") else self._answer(prompt)

    def let_go(self) -> None:
        """Release all held replies."""
        for hold in self.holds:
            hold.until.set()

    def _answer(self, prompt: str) -> Answer:
        if prompt == "a failure":
            return HttpError(400, "invalid_request_error")
        if prompt.startswith("fails at first") and prompt not in self.failed:
            self.failed.append(prompt)
            return HttpError(400, "invalid_request_error")
        hold = Hold(index=4) if prompt in {"hold on", "stay"} else None
        if hold is not None and prompt != "stay":
            self.holds.append(hold)
        return Reply(ANSWERS.get(prompt, [Text(f"You said: {prompt.splitlines()[-1]}")]), hold=hold)

    def _mails(self, prompt: str) -> Answer:
        _, _, to = prompt.partition(" to ")
        receivers = [to] if to else ["a@example.org", "b@example.org"]
        return Reply([ToolUse(MAIL, {"to": receiver, "text": "Hi"}) for receiver in receivers])


@dataclass(frozen=True, slots=True)
class Played:
    """What each release's chats made of our streams, by scenario; the model's requests; the mails sent."""

    scenarios: dict[str, dict[str, Any]]
    requested: list[ApiRequest]
    sent: list[tuple[str, str]]

    def of(self, release: str, scenario: str) -> Any:
        """What the chats of a release made of a scenario."""
        played = self.scenarios[release][scenario]
        assert not (isinstance(played, dict) and "failed" in played), played["failed"]
        return played


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """One server, both releases at once."""
    directory, model = tmp_path_factory.mktemp("ai-sdk"), Model()
    chosen = {**settings(directory), "RUNTALLY_DISCONNECT_GRACE_S": 1}
    (directory / "graphs" / "helper.md").write_text(
        "---\ndescription: Helps.\ntools: [core__get_current_time]\nclient_tools: true\n---\nHelp.\n"
    )
    (directory / "graphs" / "asker.md").write_text("---\ndescription: Asks.\nquestions: true\n---\nAsk.\n")
    async with (
        a_database(postgres) as database_url,
        a_world(directory, database_url, named_by_caller(model), **chosen) as world,
    ):
        printed = await asyncio.gather(
            *(node("ai_sdk.mjs", world.url, KEY, *release) for release in RELEASES.items()),
            *(node("ai_sdk.mjs", world.url, KEY, name, *chosen) for name, chosen in BETWEEN.items()),
        )
        model.let_go()
        scenarios = dict(zip([*RELEASES, *BETWEEN], map(json.loads, printed), strict=True))
        return Played(scenarios, list(world.simulator.requests), list(office().sent))


each_release = pytest.mark.parametrize("release", RELEASES)


def answer(chat: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of a chat's last message, which is the assistant's, without the marks of steps."""
    assert (chat["status"], chat["errors"]) == ("ready", [])
    message = chat["messages"][-1]
    assert message["role"] == "assistant"
    assert message["metadata"]["runId"] == message["id"]
    return [part for part in message["parts"] if part["type"] != "step-start"]


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content, "state": "done"}


@each_release
def test_text_arrives_unchanged(played: Played, release: str) -> None:
    assert answer(played.of(release, "text")) == [text(ODD)]
    assert answer(played.of(release, "line")) == [text(HUGE)]
    metadata = played.of(release, "text")["messages"][-1]["metadata"]
    assert (metadata["finishReason"], metadata["usage"]["promptTokens"]) == ("stop", 10)


@each_release
def test_a_search_has_its_pages_and_the_answer_its_sources(played: Played, release: str) -> None:
    chat = played.of(release, "search")

    first = [part for part in chat["messages"][1]["parts"] if part["type"] != "step-start"]
    assert [part["type"] for part in first] == [
        *("text", "tool-web_search", "text", "source-url", "tool-web_fetch"),
    ]
    assert (first[0]["text"], first[2]["text"]) == ("Let me look. ", "It snows. Bye.")
    assert first[1]["output"] == {"pages": [{"url": SNOW, "title": "Snow"}]}
    assert (first[3]["url"], first[3]["title"]) == (SNOW, "Snow")
    assert (first[4]["state"], first[4]["errorText"]) == (
        *("output-error", "The tool call failed: url_not_allowed."),
    )
    # The parts are posted with the next message.
    assert answer(chat)[-1]["text"] == "You said: and then"


@pytest.mark.parametrize("release", [*RELEASES, *BETWEEN])
def test_an_answer_tells_how_full_the_context_is(played: Played, release: str) -> None:
    """Also of an agent with the CLI."""
    metadata = played.of(release, "text")["messages"][-1]["metadata"]
    assert (metadata["contextUsed"], metadata["contextWindow"]) == (30, 1_000_000)


@pytest.mark.parametrize("release", [*RELEASES, *BETWEEN])
def test_a_tool_is_called_and_the_conversation_continues(played: Played, release: str) -> None:
    chat = played.of(release, "turns")

    first, second = chat["messages"][1], answer(chat)
    call = first["parts"][2]
    assert [part["type"] for part in first["parts"]] == [
        *("step-start", "text", "tool-core__get_current_time"),
        *("step-start", "text"),
    ]
    assert (call["state"], call["input"], call["output"]["timezone"]) == (
        "output-available",
        {"timezone": "UTC"},
        "UTC",
    )
    assert second == [text("You said: and then")]
    assert {part["type"] for part in chat["data"]} == {"data-status", "data-step"}


def test_the_model_receives_each_turn_once(played: Played) -> None:
    for request in played.requested:
        if request.last_text == "and then":
            texts = [text_of(message["content"]) for message in request.messages]
            said, *answered, last = [each for each in texts if each]
            assert answered == ANSWERED[said]
            assert last == "and then"


@each_release
def test_a_failed_tool_is_reported_and_the_run_continues(played: Played, release: str) -> None:
    call, words = answer(played.of(release, "toolError"))

    assert (call["type"], call["state"]) == ("tool-core__get_current_time", "output-error")
    assert call["errorText"] == "The tool call failed: invalid_args."
    assert words == text("So be it.")


@each_release
def test_a_failed_run_is_an_error_with_our_code(played: Played, release: str) -> None:
    chat = played.of(release, "runError")

    assert (chat["status"], chat["errors"]) == ("error", ["The run did not succeed: invalid_request."])
    metadata = chat["messages"][-1]["metadata"]
    assert (metadata["error"], metadata["finishReason"]) == ("invalid_request", "error")


@each_release
async def test_streamed_parts_have_the_types_of_the_release(
    played: Played, release: str, tmp_path: Path
) -> None:
    chunks = [*played.of(release, "chunks"), *played.of(release, "stop")["chunks"]]
    (tmp_path / "chunks.ts").write_text(
        f'import type {{ UIMessageChunk }} from "{release}";\n'
        f"export const streamed: UIMessageChunk[] = {json.dumps(chunks)};\n"
        "// @ts-expect-error the type is not so wide that anything would do\n"
        'export const wrong: UIMessageChunk = { type: "text-delta", id: 1, delta: "x" };\n'
    )

    await compile_typescript(tmp_path, "chunks.ts", check_only=True)

    assert {chunk["type"] for chunk in chunks} >= {"tool-output-available", "error", "abort", "finish"}


@each_release
def test_a_chat_is_stopped(played: Played, release: str) -> None:
    stopped = played.of(release, "stop")

    kinds = [chunk["type"] for chunk in stopped["chunks"]]
    assert kinds[-4:] == ["text-end", "finish-step", "abort", "finish"]
    assert stopped["chunks"][-1]["messageMetadata"]["finishReason"] == "aborted"
    assert stopped["statuses"] == [202, 204]


@each_release
def test_a_resumed_chat_receives_the_current_message_from_its_start(played: Played, release: str) -> None:
    resumed = played.of(release, "reconnect")

    assert resumed["same"]
    assert resumed["message"]["parts"] == [{"type": "step-start"}, text("one two three four")]
    assert resumed["errors"] == []


@each_release
def test_resuming_an_idle_chat_gives_204(played: Played, release: str) -> None:
    assert played.of(release, "nothing") is None


@each_release
def test_a_repeated_post_joins_its_run(played: Played, release: str) -> None:
    first, second = played.of(release, "twice")

    assert first == second


@each_release
def test_a_failed_answer_can_be_regenerated(played: Played, release: str) -> None:
    retried = played.of(release, "retry")

    assert retried["before"]["status"] == "error"
    assert answer(retried["after"]) == [text(f"You said: fails at first, {release}")]


@pytest.mark.parametrize("release", [*RELEASES, *BETWEEN])
def test_the_model_gets_what_is_shown_after_a_refused_regeneration_or_edit(
    played: Played, release: str
) -> None:
    for kind, shown, hidden in (("regenerate", "BLUE", "You said"), ("edit", "RED", "BLUE")):
        chat = played.of(release, "refused")[kind]
        assert [message["role"] for message in chat["messages"]] == ["user", "user", "assistant"]
        (heard,) = [
            str(request.messages)
            for request in played.requested
            if f"{release} {kind} next" in str(request.messages[-1])
        ]
        assert f"{release} {kind} {shown}" in heard
        assert hidden not in heard


@pytest.mark.parametrize("release", [*RELEASES, *BETWEEN])
def test_stopping_ends_the_run_after_a_while_or_at_once_with_the_next_message(
    played: Played, release: str
) -> None:
    for_good, and_on = played.of(release, "leave")

    assert (for_good["run"], and_on["run"]) == ("cancelled", "cancelled")
    assert answer(and_on) == [text("You said: and on")]


@each_release
def test_the_client_executes_its_own_tools(played: Played, release: str) -> None:
    """Beside one of ours in the same message; after a reload it gets the call again, or moves on."""
    scenario = played.of(release, "clientTools")

    parts = answer(scenario["picked"])
    assert len(scenario["picked"]["messages"]) == 2
    assert [part["type"] for part in parts] == [
        *("text", "tool-core__get_current_time", "tool-pick_color", "tool-pick_color", "text")
    ]
    # The agent calls both at once.
    assert sorted((part["state"], part["output"]["color"]) for part in parts[2:4]) == [
        ("output-available", "blue"),
        ("output-available", "green"),
    ]
    assert sorted(each[1]["about"] for each in scenario["called"]) == ["nothing", "sea", "sky"]
    *_, waits = scenario["reloaded"]["message"]["parts"]
    assert (waits["type"], waits["state"]) == ("tool-pick_color", "input-available")
    assert answer(scenario["after"]) == [text("You said: never mind")]
    assert scenario["posts"] == 4
    mine = [
        each
        for each in played.requested
        if any(name.endswith("client-pick_color") for name in each.tool_names)
    ]
    assert [each for each in mine if "no name of a tool" in str(each.tool_names)] == []
    heard = [[str(result["content"]) for result in each.tool_results] for each in mine]
    assert sum("blue" in str(results) and "green" in str(results) for results in heard) == 2


def test_the_oldest_release_gets_permission_requests_as_data_parts(played: Played) -> None:
    chat = played.of("ai-oldest", "consent")

    call, permission, words = answer(chat)
    assert (call["state"], call["output"]) == ("output-available", {"to": "oldest@example.org"})
    assert (permission["type"], permission["data"]["state"]) == ("data-permission", "allowed")
    assert words == text("So be it.")
    requested = [part["data"]["state"] for part in chat["data"] if part["type"] == "data-permission"]
    assert requested == ["requested", "allowed"]
    assert ("oldest@example.org", "Hi") in played.sent


@pytest.mark.parametrize("release", [*BETWEEN, "ai"])
def test_later_releases_receive_why_an_answer_ends_if_they_name_themselves(
    played: Played, release: str
) -> None:
    assert played.of(release, "approve")["after"]["finishReasons"] == ["tool-calls", "stop"]
    assert played.of(release, "text")["finishReasons"] == [None]


@each_release
def test_a_question_is_one_part_that_is_answered(played: Played, release: str) -> None:
    parts = answer(played.of(release, "question"))
    (question,) = [part["data"] for part in parts if part["type"] == "data-question"]
    assert (question["state"], question["answers"]) == ("answered", [["Red"]])
    assert parts[-1] == text("So be it.")


def test_a_person_approves_in_the_newest_release(played: Played) -> None:
    scenario = played.of("ai", "approve")

    (requested,) = answer(scenario["before"])
    call, words = answer(scenario["after"])
    assert (requested["state"], call["state"]) == ("approval-requested", "output-available")
    assert call["approval"]["approved"]
    assert words == text("So be it.")
    assert len(scenario["after"]["messages"]) == 2
    assert scenario["posts"] == 2
    assert ("newest@example.org", "Hi") in played.sent


def test_a_person_denies_in_the_newest_release(played: Played) -> None:
    call, words = answer(played.of("ai", "deny")["after"])

    assert (call["state"], call["approval"]["reason"]) == ("output-denied", "Never.")
    assert words == text("So be it.")
    assert "nobody@example.org" not in [receiver for receiver, _ in played.sent]
    results = [result for request in played.requested for result in request.tool_results]
    assert any("Never." in str(result["content"]) for result in results)


def test_parallel_calls_are_decided_one_after_the_other(played: Played) -> None:
    scenario = played.of("ai", "both")

    first, second, _ = answer(scenario["after"])
    assert (first["state"], second["state"]) == ("output-denied", "output-available")
    assert scenario["posts"] == 3
    assert [each for each in played.sent if each[0] in {"a@example.org", "b@example.org"}] == [
        ("b@example.org", "Hi")
    ]
