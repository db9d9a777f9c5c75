"""Answers to commands between processes."""

import json

import pytest

from app.errors import AppError, FieldError, Invalid, Unavailable
from app.executors.inbox import MessageQueueFull, RunEnded
from app.executors.waiting.records import PermissionDecided, PermissionNotFound
from app.platform.server.memory import Overloaded
from app.platform.storage.service import StorageFull
from app.requests.principal import ScopeMissing
from app.runs.commands.answers import MAX_FIELD_ERRORS, Answer, CommandFailed, CommandRefusal, NotApplied
from app.streams.process_channel import MAX_MESSAGE_BYTES


def received(error: AppError) -> AppError:
    """The error that another process raises for it."""
    sent = Answer(refusal=CommandRefusal.of(error)).model_dump(mode="json", by_alias=True, exclude_none=True)
    with pytest.raises(AppError) as raised:
        Answer.model_validate(sent).unpack()
    return raised.value


@pytest.mark.parametrize(
    "error",
    [
        RunEnded(),
        MessageQueueFull(retry_after_s=5),
        PermissionNotFound(),
        PermissionDecided(),
        ScopeMissing.of("runs:approve"),
        Invalid.field("args.to", "is missing"),
        CommandFailed(),
    ],
)
def test_a_refusal_is_raised_as_the_same_error(error: AppError) -> None:
    raised = received(error)

    assert type(raised) is type(error)
    assert (raised.detail, raised.errors, raised.retry_after_s) == (
        *(error.detail, error.errors),
        error.retry_after_s,
    )


@pytest.mark.parametrize(
    ("error", "expected"), [(StorageFull("secret"), CommandFailed), (Overloaded("secret"), Unavailable)]
)
def test_other_errors_have_no_text_of_theirs(error: AppError, expected: type[AppError]) -> None:
    raised = received(error)

    assert type(raised) is expected
    assert "secret" not in raised.detail


def test_a_refusal_is_small_whatever_it_quotes() -> None:
    text = "\N{GRINNING FACE}" * 10**6
    answer = Answer(refusal=CommandRefusal.of(Invalid(text, errors=[FieldError(text, text)] * 1000)))

    assert len(json.dumps(answer.model_dump())) < 0.9 * MAX_MESSAGE_BYTES
    assert answer.refusal is not None
    assert len(answer.refusal.errors) == MAX_FIELD_ERRORS


def test_a_code_of_a_newer_server_is_an_internal_error() -> None:
    with pytest.raises(CommandFailed):
        Answer(refusal=CommandRefusal(code="new", detail="")).unpack()


def test_a_command_that_was_not_applied_has_a_reason_and_no_result() -> None:
    with pytest.raises(NotApplied) as raised:
        Answer(not_applied="overloaded").unpack()

    assert raised.value.reason == "overloaded"
    assert Answer(result={}).unpack() == {}
