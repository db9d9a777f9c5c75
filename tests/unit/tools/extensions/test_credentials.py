"""A tool gets the credential it asks for, and nothing else ever contains it."""

import asyncio
from typing import Any

import pytest
import structlog

from app.tools.extensions.credentials import CallCredentials
from runtally.tools.content import ToolImage, ToolText
from runtally.tools.result import ToolResult
from runtally.tools.tool import HookContext, ToolFailed
from tests.unit.tools.calling import CONTEXT
from tests.virtual_time import in_virtual_time

SECRET = "ghp_A1b2C3d4E5f6"


def answering(answer: Any) -> CallCredentials:
    """The credentials of a call whose provider returns, raises or never answers."""

    async def provider(_context: HookContext, *, tool_id: str, name: str) -> Any:
        assert (tool_id, name) == ("office__send", "mail")
        if isinstance(answer, BaseException):
            raise answer
        return await asyncio.Event().wait() if answer is ... else answer

    return CallCredentials(provider, CONTEXT, "office__send")


async def test_a_credential_shows_itself_nowhere() -> None:
    credentials = answering(SECRET)

    token = await credentials.get("mail")

    assert token.get_secret_value() == SECRET
    assert SECRET not in f"{token} {token!r}"


@pytest.mark.parametrize(
    ("answer", "told", "logged"),
    [
        (None, "The account has no credential for this tool.", []),
        (RuntimeError(SECRET), "is not available now.", ["raised RuntimeError"]),
        (SystemExit(SECRET), "is not available now.", ["raised SystemExit"]),
        (asyncio.CancelledError(), "is not available now.", ["raised CancelledError"]),
        (..., "is not available now.", ["did not return within 5 seconds"]),
        ("", "is not available now.", ["returned neither a text nor None"]),
        ({"token": SECRET}, "is not available now.", ["returned neither a text nor None"]),
    ],
)
@in_virtual_time
async def test_a_provider_that_fails_is_an_error_of_the_tool_in_our_words(
    answer: Any, told: str, logged: list[str]
) -> None:
    with structlog.testing.capture_logs() as lines, pytest.raises(ToolFailed) as failed:
        await answering(answer).get("mail")

    assert str(failed.value).endswith(told)
    assert [line["reason"] for line in lines] == logged
    assert SECRET not in f"{lines} {failed.value}"
    assert failed.value.__cause__ is None


async def test_without_a_provider_there_is_none() -> None:
    with pytest.raises(ToolFailed, match="has no credential"):
        await CallCredentials(None, CONTEXT, "office__send").get("mail")


async def test_results_do_not_contain_what_the_call_has_got() -> None:
    credentials = answering(SECRET)
    image = ToolImage("image/png", "AAAA")
    result = ToolResult(
        f"Sent with {SECRET}.", {"by": [f"token {SECRET}"], "count": 1}, "failed", (ToolText(SECRET), image)
    )
    assert credentials.hidden_in(result) is result
    await credentials.get("mail")

    assert credentials.hidden_in(result) == ToolResult(
        "Sent with [hidden].", {"by": ["token [hidden]"], "count": 1}, "failed", (ToolText("[hidden]"), image)
    )
