"""What a run was asked and has answered, as the items of its responses."""

from typing import Any

from app.events import ClientEvent
from app.http.openai.answer import Received
from app.http.openai.responses.ids import ResponseName, request_of
from app.http.openai.responses.items import StoredRun, asked_in, items_of
from app.requests.messages import Message
from tests.unit.http.events import (
    ANSWERED,
    CALL,
    DONE,
    QUESTION,
    REQUEST,
    RESOLVED,
    STARTED,
    client_call,
    client_result,
    entries_of,
)
from tests.unit.http.openai.test_responses import RECORD, RUN, text, whole

MESSAGES = [
    Message.of(role="system", content="Be brief."),
    Message.of(role="user", content="Who am I?"),
    Message.of(role="assistant", content="Bob."),
    Message.of(role="user", content="Sure?"),
]


def a_run(*events: ClientEvent, waits: frozenset[str] = frozenset()) -> StoredRun:
    """A run with these events."""
    entries = entries_of(*events) if events else RUN
    return StoredRun(RECORD, MESSAGES, is_object=False, entries=entries, waits=waits, size=0)


def items(run: StoredRun) -> list[dict[str, Any]]:
    return items_of(run, page="http://h/approvals", has_images=False)


def asked(run: StoredRun, after: int = 0) -> list[dict[str, Any]]:
    return list(asked_in(ResponseName("r-1", after), run, has_images=False))


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [each["type"].removesuffix("_call_output") for each in found]


def test_the_items_of_a_run_are_those_of_its_responses_with_what_was_answered_between_them() -> None:
    found = items(a_run())

    assert kinds(found) == [
        *("message", "message", "message", "reasoning", "message", "function_call"),
        *("function", "message", "mcp_approval_request", "mcp_approval_response", "message", "message"),
    ]
    assert len({each["id"] for each in found}) == len(found)
    call, result, request, decision = found[5], found[6], found[8], found[9]
    assert (result["call_id"], result["output"]) == (call["call_id"], "blue")
    assert decision["approval_request_id"] == request["id"] == whole(RUN, Received(5)).output[-1].id
    assert request_of(request["id"]) == ("r-1", "p-1")


def test_a_response_is_asked_with_messages_or_with_answers() -> None:
    run = a_run()

    first, *turns = asked(run)
    assert (first["role"], first["content"][0]["text"]) == ("developer", "Be brief.")
    assert [each["role"] for each in turns] == ["user", "assistant", "user"]
    assert [kinds(asked(run, after)) for after in (5, 9, 12)] == [["function"], ["mcp_approval_response"], []]
    # Where a client has named a later position, of an event that nothing waits for.
    assert kinds(asked(run, 7)) == []
    assert asked(run, 10**8) == []


def test_what_still_waits_is_asked_for_and_not_answered() -> None:
    run = a_run(STARTED, text("one"), client_call("a"), client_call("b"), waits=frozenset({"a", "b"}))
    answered = a_run(
        *(STARTED, text("one"), client_call("a"), client_call("b"), client_result("b", {"n": 1})),
        waits=frozenset({"a"}),
    )

    assert kinds(items(run)[3:]) == ["message", "function_call", "function_call"]
    assert kinds(items(answered)[3:]) == ["message", "function_call", "function_call", "function"]
    assert items(answered)[-1]["output"] == '{"n": 1}'


def test_only_decisions_of_persons_are_items() -> None:
    expired = RESOLVED.model_copy(update={"reason": "expired", "decision": "deny"})
    undecided = a_run(STARTED, CALL, REQUEST, expired, text("no"), DONE)

    assert kinds(items(undecided)[3:]) == ["message"]
    assert asked(undecided, 3) == []
    found = items(a_run(STARTED, CALL, REQUEST, RESOLVED.model_copy(update={"decision": "deny"})))
    assert [each.get("approve") for each in found[3:]] == [None, False]
    assert kinds(items(a_run(STARTED, QUESTION, ANSWERED))[3:]) == ["message"]
