"""Releases of @ag-ui/client: each understands all that it gets, and shows what it can."""

import json
from typing import Any

import pytest
from ag_ui.core import AssistantMessage, ReasoningMessage, UserMessage
from pydantic import TypeAdapter

from app.events import (
    AssistantFinal,
    ClientEvent,
    Done,
    PermissionRequest,
    RunError,
    RunStarted,
    Step,
    TextDelta,
    ThinkingDelta,
    ToolCallResult,
    ToolCallStart,
)
from app.http.ag_ui.comparison import snapshots_to
from app.http.ag_ui.input import AgUiInput
from app.http.ag_ui.output.encoder import AgUiEncoder
from app.http.ag_ui.releases.dialect import UNKNOWN
from app.requests.outcome import FinalUsage
from app.streams.port import LogEntry
from tests.clients.node import node

pytestmark = pytest.mark.long

RELEASES = {"0.0.40": "ag-ui-0.0.40", "0.0.53": "ag-ui-0.0.53", "0.0.59": "ag-ui-0.0.59"}
CURRENT = "@ag-ui/client"
USER = {"id": "u-1", "role": "user", "content": "hi"}
SUBAGENT = "toolu_task"

STARTED = RunStarted(run_id="r-1", graph_id="claude_agents:assistant", model="sonnet", attempt=1)
BEGINNING: list[ClientEvent] = [
    STARTED,
    ThinkingDelta(message_id="m-1", delta="hm"),
    TextDelta(message_id="m-1", delta="Let me see."),
    ToolCallStart(tool_call_id=SUBAGENT, tool_name="agent", args={"subagent_type": "analyst"}),
    Step(step_index=1, step_budget=8),
    TextDelta(message_id="s-1", delta="I look.", parent_tool_call_id=SUBAGENT),
    ThinkingDelta(message_id="s-1", delta="so", parent_tool_call_id=SUBAGENT),
    ToolCallStart(
        tool_call_id="toolu_mail", tool_name="office__send_mail", args={}, parent_tool_call_id=SUBAGENT
    ),
]
REQUEST = PermissionRequest(
    request_id="p-1",
    tool_call_id="toolu_mail",
    tool_name="office__send_mail",
    args={"to": "bob"},
    expires_at="2036-11-21T12:00:00Z",
)
ANSWER: list[ClientEvent] = [
    ToolCallResult(tool_call_id="toolu_mail", result="sent", is_error=False, parent_tool_call_id=SUBAGENT),
    ToolCallResult(tool_call_id=SUBAGENT, result="looked", is_error=False),
    TextDelta(message_id="m-2", delta="Done."),
]
USAGE = FinalUsage(prompt_tokens=10, completion_tokens=5)
ENDS: dict[str, list[ClientEvent]] = {
    "success": [*ANSWER, AssistantFinal(content="Done."), Done(usage=USAGE, finish_reason="stop")],
    "cancelled": [RunError(error="aborted"), Done(usage=USAGE, finish_reason="aborted")],
    "interrupt": [REQUEST],
}
SNAPSHOT: list[Any] = TypeAdapter(list[UserMessage | AssistantMessage | ReasoningMessage]).validate_python(
    [
        {
            "id": "u-0",
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}},
            ],
        },
        {"id": "q-0", "role": "reasoning", "content": "what is it"},
        {"id": "a-0", "role": "assistant", "content": "yes"},
    ]
)


def stream(end: str, *, release: str | None = None, current: bool = False) -> str:
    version = {"protocolVersion": "1.0"} if current else {}
    posted = AgUiInput.parse(
        {"threadId": "t-1", "runId": "r-1", "messages": [USER], **version}, release=release
    )
    encoder = AgUiEncoder(thread_id="t-1", run_id="r-1", our_run_id="r-1", dialect=posted.dialect)
    events = [*BEGINNING, *ENDS[end]]
    entries = [LogEntry(position, event, 1_764_000_000_000) for position, event in enumerate(events, 1)]
    if end == "success":
        encoder.show([SNAPSHOT], entries[0])
    encoded = encoder.encode(entries)
    return (encoded if encoder.ended else encoded + encoder.encode_pause()).decode()


async def test_each_release_shows_an_answer_that_it_has_missed_in_its_place() -> None:
    missed = AssistantMessage(id="a-1", role="assistant", content="Missed.")
    shown = [UserMessage(id=name, role="user", content=name) for name in ("u-1", "u-2")]
    encoder = AgUiEncoder(thread_id="t-1", run_id="r-1", our_run_id="r-1", dialect=UNKNOWN)
    entries = [LogEntry(position, event) for position, event in enumerate([STARTED, *ENDS["success"]], 1)]
    encoder.show(snapshots_to(shown, [shown[0], missed, shown[1]]), entries[0])
    messages = [message.model_dump(mode="json", exclude_none=True) for message in shown]
    sent = encoder.encode(entries).decode()
    scenes = [
        {"client": client, "messages": messages, "stream": sent} for client in (*RELEASES.values(), CURRENT)
    ]

    for scene in json.loads(await node("ag_ui_releases.mjs", given=json.dumps(scenes))):
        assert scene.get("failure") is None
        assert [each["id"] for each in scene["messages"]][:3] == ["u-1", "a-1", "u-2"]


def texts(scene: dict[str, Any], role: str) -> list[Any]:
    return [message.get("content") for message in scene["messages"] if message["role"] == role]


async def test_each_release_understands_all_that_it_gets() -> None:
    clients: list[tuple[str, str | None, str]] = [
        (client, named, end)
        for release, client in RELEASES.items()
        for named in (None, release)
        for end in ENDS
    ]
    scenes = [
        {"client": client, "messages": [USER], "stream": stream(end, release=release)}
        for client, release, end in clients
    ]
    scenes += [{"client": CURRENT, "messages": [USER], "stream": stream(end, current=True)} for end in ENDS]

    played = json.loads(await node("ag_ui_releases.mjs", given=json.dumps(scenes)))

    assert [scene.get("failure") for scene in played] == [None] * len(scenes)
    results = dict(zip([*clients, *((CURRENT, None, end) for end in ENDS)], played, strict=True))
    for (client, release, end), scene in results.items():
        answers = ["Let me see.", *(["Done."] if end == "success" else [])]
        shown = [text for text in texts(scene, "assistant") if text not in {None, "", "yes", "I look."}]
        assert shown == answers, (client, release, end)
        is_oldest = client == RELEASES["0.0.40"]
        thoughts = [*(["what is it"] if end == "success" else []), "hm"]
        shown = [text for text in texts(scene, "reasoning") if text != "so"]
        assert shown == ([] if is_oldest else thoughts), (client, release, end)
        assert ("SUBAGENT_STARTED" in scene["events"]) is (client == CURRENT or release == "0.0.59")
        assert scene["events"].count("THINKING_START") == (1 if release == "0.0.40" else 0)
        resumes = end == "interrupt" and client in {CURRENT, RELEASES["0.0.59"]}
        assert bool(scene["pending"]) is resumes, (client, release, end)
    for client, scene in zip([client for client, _, _ in results], played, strict=True):
        # What each posts by itself is what its dialect is chosen by.
        assert AgUiInput.parse(scene["posted"]).dialect.has_cancelled is (client == CURRENT)
