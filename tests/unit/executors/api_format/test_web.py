from collections.abc import Mapping
from typing import Any

import pytest

from app.events import Citation, OutputEvent, ToolCallResult, ToolCallStart
from app.executors.api_format.web import WebEvents
from tests.web_pages import SNOW, cited, cited_document, failed, found, page


def searched(content: Any, *, tool: str = "web_search") -> tuple[WebEvents, list[OutputEvent]]:
    web = WebEvents()
    block = {"id": "srvtoolu_1", "name": tool}
    begun = list(web.call(block, {"query": "snow"}, None))
    return web, [*begun, *web.result({"tool_use_id": "srvtoolu_1", "content": content})]


def result_of(content: Any) -> tuple[Any, bool]:
    _, (_, result) = searched(content)
    assert isinstance(result, ToolCallResult)
    return result.result, result.is_error


def test_clients_see_addresses_titles_and_ages() -> None:
    _, events = searched(found(page_age="2 days"))

    assert events == [
        ToolCallStart(tool_call_id="srvtoolu_1", tool_name="web_search", args={"query": "snow"}),
        ToolCallResult(
            tool_call_id="srvtoolu_1",
            result={"pages": [{"url": SNOW, "title": "Snow", "pageAge": "2 days"}]},
            is_error=False,
        ),
    ]
    assert result_of(page()) == ({"pages": [{"url": SNOW, "title": "Snow"}]}, False)


@pytest.mark.parametrize(
    "url",
    [
        *("javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//evil.example/", "https://", ""),
        *(
            "https://bank.example@evil.example/",
            "https://bank.example\\@evil.example/",
            "https://a.example/ b",
        ),
        *(
            "https://a.example/\u202egpj",
            "https://a.example/\n",
            "https://[::",
            "https://a.example/" + "x" * 2000,
        ),
    ],
)
def test_other_addresses_are_not_shown(url: str) -> None:
    assert result_of(found(url)) == ({"pages": []}, False)
    assert list(WebEvents().citation(cited(url), "m", None)) == []


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (failed("web_search", "max_uses_exceeded"), "max_uses_exceeded"),
        (failed("web_fetch", "too_many_requests"), "too_many_requests"),
        (failed("web_search", "see http://10.0.0.1 for details"), "failed"),
        ({"error_code": {"x": 1}}, "failed"),
    ],
)
def test_errors_are_those_that_are_known(content: Mapping[str, Any], error: str) -> None:
    assert result_of(content) == ({"error": error}, True)


@pytest.mark.parametrize(
    "content", [None, 3, "text", [None, [], {}], {"url": 3}, [{"url": SNOW, "content": 3}]]
)
def test_what_is_no_page_is_left_out(content: Any) -> None:
    result, is_error = result_of(content)

    assert len(result["pages"]) <= 1
    assert not is_error


def test_results_are_limited() -> None:
    result, _ = result_of(found(*[f"https://a.example/{n}" for n in range(500)], title="t" * 1000))

    assert len(result["pages"]) == 50
    assert {len(each["title"]) for each in result["pages"]} == {300}


def test_a_citation_names_its_page() -> None:
    web, _ = searched(page(), tool="web_fetch")

    (of_search,) = web.citation(cited(text="x" * 1000), "m", None)
    (of_page,) = web.citation(cited_document(), "m", None)

    assert of_search == Citation(message_id="m", url=SNOW, title="Snow", cited_text="x" * 150)
    assert of_page == Citation(message_id="m", url=SNOW, title="Snow", cited_text="It snows.")
    assert list(web.citation(cited_document("Another"), "m", None)) == []
    assert list(web.citation("none", "m", None)) == []


@pytest.mark.parametrize("block", [{}, {"id": "a", "name": "bash"}, {"id": 3, "name": "web_search"}])
def test_only_calls_of_web_tools_are_shown(block: Mapping[str, Any]) -> None:
    assert list(WebEvents().call(block, {}, None)) == []


def test_each_call_has_one_result() -> None:
    web, _ = searched(found())

    assert list(web.call({"id": "srvtoolu_1", "name": "web_search"}, {}, None)) == []
    assert list(web.result({"tool_use_id": "srvtoolu_1", "content": found()})) == []
    list(web.call({"id": "srvtoolu_2", "name": "web_search"}, {}, "call"))
    assert list(web.unread_results("other")) == []
    (of_subagent,) = web.unread_results("call")
    assert of_subagent == ToolCallResult(
        tool_call_id="srvtoolu_2", result={}, is_error=False, parent_tool_call_id="call"
    )
    list(web.call({"id": "srvtoolu_3", "name": "web_fetch"}, {}, None))
    (lost,) = web.unfinished()
    assert lost == ToolCallResult(tool_call_id="srvtoolu_3", result={"error": "failed"}, is_error=True)
