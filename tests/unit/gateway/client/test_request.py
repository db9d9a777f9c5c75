"""What the gateway reads of a request of a client's own agent."""

import json
from typing import Any

import pytest

from app.errors import Invalid
from app.gateway.client.request import ClientRequest, NotAMessage
from app.gateway.upstream import MESSAGES

SESSION = "decc4a6a-8f89-4958-a852-90cb596fce0e"
CLAUDE_CODE = {"device_id": "b1ef", "account_uuid": "", "session_id": SESSION}


def read(body: bytes | dict[str, Any], **headers: str) -> ClientRequest:
    sent = body if isinstance(body, bytes) else json.dumps({"model": "claude-opus-5-5", **body}).encode()
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return ClientRequest.read(MESSAGES, sent, {"headers": raw, "query_string": b"beta=true"})


@pytest.mark.parametrize(
    ("user_id", "end_user", "agents_user", "session"),
    [
        ("customer 7", "customer 7", None, None),
        (json.dumps(CLAUDE_CODE), None, "b1ef", SESSION),
        (json.dumps({**CLAUDE_CODE, "account_uuid": "a-1"}), None, "a-1", SESSION),
        (f"user_b1ef_account__session_{SESSION}", None, "user_b1ef_account_", SESSION),
        ("[1]", "[1]", None, None),
        ("{" * 5000, None, None, None),
        ("x" * 129, None, None, None),
        ("a\nb", None, None, None),
        ("~x", None, None, None),
        ("", None, None, None),
        (7, None, None, None),
    ],
)
def test_a_user_id_names_the_user_and_in_claude_code_the_session(
    user_id: Any, end_user: str | None, agents_user: str | None, session: str | None
) -> None:
    request = read({"metadata": {"user_id": user_id}})

    assert (request.end_user, request.agents_user, request.session) == (end_user, agents_user, session)


def test_headers_say_it_more_clearly() -> None:
    body = {"metadata": {"user_id": json.dumps(CLAUDE_CODE)}}

    request = read(body, x_claude_code_session_id="s-1", runtally_end_user="ann")

    assert (request.end_user, request.session) == ("ann", "s-1")


def test_the_provider_gets_the_headers_of_its_api_and_no_others() -> None:
    passed = {
        "anthropic_beta": "a,b",
        "anthropic_version": "2023-06-01",
        "content_type": "application/json",
        "user_agent": "claude-cli/2",
        "x_app": "cli",
        "x_claude_code_session_id": SESSION,
        "x_stainless_lang": "js",
    }
    others = {
        "authorization": "Bearer rt_1",
        "cookie": "a=b",
        "forwarded": "for=10.0.0.1",
        "runtally_end_user": "ann",
        "x_api_key": "rt_1",
        "x_forwarded_for": "10.0.0.1",
    }

    found = read({}, **passed, **others).scope

    assert dict(found["headers"]) == {
        name.replace("_", "-").encode(): value.encode() for name, value in passed.items()
    }
    assert found["query_string"] == b"beta=true"


def test_every_model_that_may_answer_is_known() -> None:
    request = read(
        {
            "fallbacks": [{"model": "claude-haiku-5-5"}],
            "tools": [{"type": "advisor_20260301", "name": "advisor", "model": "claude-fable-5"}],
        }
    )

    assert set(request.models) == {"claude-opus-5-5", "claude-haiku-5-5", "claude-fable-5"}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'"text"', b"\xff", '{"model": "m"}'.encode("utf-16"), b"[" * 100_000]
)
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(NotAMessage):
        read(body)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{}", "model"),
        (b'{"model": ""}', "model"),
        (b'{"model": 5}', "model"),
        (b'{"model": "claude-haiku-5-5", "model": "claude-opus-5-5"}', "model"),
        (b'{"model": "m", "fallbacks": [{"model": "a", "mod\\u0065l": "b"}]}', "model"),
        (b'{"model": "m", "max_tokens": 1, "max_tokens": 128000}', "max_tokens"),
    ],
)
def test_what_another_reader_could_read_otherwise_is_refused(body: bytes, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(body)

    assert [error.field for error in refused.value.errors] == [field]


def test_half_a_character_in_a_text_is_the_providers_business() -> None:
    assert read(b'{"model": "m", "messages": [{"role": "user", "content": "\\ud83d"}]}').size.model == "m"
