import pytest
from claude_agent_sdk import Message, TextBlock, ToolResultBlock, ToolUseBlock

from app.events import OutputEvent, TextDelta, ToolCallResult, ToolCallStart
from app.executors.claude_agent.mapper import EventMapper
from runtally.tools.result import ToolResult
from tests.unit.executors.claude_agent.frames import assistant, started, text, user

CALL = ToolUseBlock("toolu_1", "mcp__runtally__core__get_current_time", {"timezone": "UTC"})
ANSWER = ToolResultBlock("toolu_1", [{"type": "text", "text": "for the model only"}], is_error=False)


def responded(*frames: Message, show_thinking: bool = False, **results: ToolResult) -> list[OutputEvent]:
    mapper = EventMapper(
        tool_ids=frozenset({"core__get_current_time"}),
        cli_tools=frozenset({"Agent"}),
        take_result=lambda call_id: results.pop(call_id, None),
        show_thinking=show_thinking,
        step_budget=8,
    )
    return [event for frame in frames for event in mapper.feed(frame)]


def test_text_is_told_once_though_the_message_repeats_it() -> None:
    events = responded(started(), text("hel"), text("lo"), assistant(TextBlock("hello")))

    assert events == [TextDelta(message_id="msg_1", delta="hel"), TextDelta(message_id="msg_1", delta="lo")]


def test_text_that_was_not_streamed_is_told_from_the_message() -> None:
    assert responded(assistant(TextBlock("hello"))) == [TextDelta(message_id="msg_1", delta="hello")]


def test_the_clis_own_error_text_is_never_told() -> None:
    error = assistant(TextBlock("API Error: 500 upstream"), message_id="7f1c", model="<synthetic>")

    assert responded(error) == []


def test_clients_see_the_tools_own_id_and_only_the_visible_result() -> None:
    result = ToolResult(markdown="for the model only", visible={"iso8601": "x"})

    events = responded(started(), assistant(CALL), user(ANSWER), toolu_1=result)

    assert events == [
        ToolCallStart(tool_call_id="toolu_1", tool_name="core__get_current_time", args={"timezone": "UTC"}),
        ToolCallResult(tool_call_id="toolu_1", result={"iso8601": "x"}, is_error=False),
    ]


@pytest.mark.parametrize(
    ("name", "code"), [("mcp__runtally__core__get_current_time", "failed"), ("Bash", "unknown_tool")]
)
def test_what_the_cli_answers_for_a_tool_is_never_told(name: str, code: str) -> None:
    events = responded(assistant(ToolUseBlock("toolu_1", name, {})), user(ANSWER))

    assert events[-1] == ToolCallResult(tool_call_id="toolu_1", result={"error": code}, is_error=True)


def test_what_one_of_the_clis_own_tools_answered_is_for_the_model() -> None:
    call = ToolUseBlock("toolu_2", "Agent", {"prompt": "help"})
    good = ToolResultBlock("toolu_2", "a secret of the model", is_error=None)
    bad = ToolResultBlock("toolu_2", "a secret of the model", is_error=True)

    assert [
        event for event in responded(assistant(call), user(good)) if isinstance(event, ToolCallResult)
    ] == [ToolCallResult(tool_call_id="toolu_2", result={}, is_error=False)]
    assert [
        event for event in responded(assistant(call), user(bad)) if isinstance(event, ToolCallResult)
    ] == [ToolCallResult(tool_call_id="toolu_2", result={"error": "failed"}, is_error=True)]
