import json
from typing import Any

import pytest

from app.gateway.estimate import size_of
from app.gateway.web.spec import WebSpec
from app.gateway.web.tools import may_name_web_tools, web_tools, web_tools_at_first, with_web_tools

OWN = {"name": "core__calculate", "input_schema": {"type": "object"}}
WIDE = {"type": "web_search_20250305", "name": "web_search", "max_uses": 99}
SPEC = WebSpec(search=True, fetch=True, blocked_domains=("bad.example",), max_uses=4)


def tools_of(body: bytes) -> Any:
    return json.loads(body).get("tools")


def test_the_graphs_domains_and_what_is_left() -> None:
    search, fetch = web_tools(SPEC, {"web_search": 1, "web_fetch": 2})

    assert search == {
        "type": "web_search_20250305",
        "name": "web_search",
        "max_uses": 1,
        "blocked_domains": ["bad.example"],
    }
    assert (fetch["max_uses"], fetch["citations"], fetch["max_content_tokens"]) == (
        2,
        {"enabled": True},
        50_000,
    )
    assert [tool["max_uses"] for tool in web_tools_at_first(SPEC)] == [4, 4]
    assert web_tools_at_first(None) == []


@pytest.mark.parametrize(
    "asked",
    [
        [OWN, WIDE],
        [WIDE, OWN, {"type": "web_fetch_20260318", "name": "page", "allowed_domains": ["evil.example"]}],
        [{**WIDE, "type": "web_new"}, OWN],
        [OWN],
    ],
)
def test_an_agents_own_web_tools_are_replaced(asked: list[dict[str, Any]]) -> None:
    granted = web_tools(SPEC, {"web_search": 1})
    body = json.dumps({"model": "m", "tools": asked, "messages": [{"role": "user", "content": "snö web_"}]})

    for tools in ([], granted):
        sent = with_web_tools(body.encode(), tools)
        assert tools_of(sent) == [OWN, *tools]
        assert {**json.loads(sent), "tools": None} == {**json.loads(body), "tools": None}
        assert size_of(sent).maximum.web_search_requests == len(tools)


def test_a_name_is_found_behind_escapes() -> None:
    body = b'{"tools": [{"type": "\\u0077eb_search_20250305", "name": "web_search"}], "messages": []}'

    assert may_name_web_tools(body)
    assert not may_name_web_tools(b'{"messages": [{"content": "\\u001b[0m \\ud83d"}]}')
    assert tools_of(with_web_tools(body, [])) == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages": [{"content": "web_search"}]}',
        b'{"tools":  [ 3, {"name": "web_x"}]}',
        b"web_ no JSON",
        b"[]",
    ],
)
def test_other_requests_keep_their_bytes(body: bytes) -> None:
    assert with_web_tools(body, []) == body


def test_half_a_character_hides_no_search_from_the_estimate() -> None:
    body = b'{"tools": [], "messages": [{"role": "user", "content": "\\ud83d"}]}'

    assert size_of(with_web_tools(body, web_tools(SPEC, {"web_search": 2}))).maximum.web_search_requests == 2


def test_a_request_without_tools_gets_them() -> None:
    granted = web_tools(SPEC, {"web_fetch": 1})

    assert tools_of(with_web_tools(b'{"messages": []}', granted)) == granted
