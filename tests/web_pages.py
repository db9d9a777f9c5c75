"""What the provider's web tools find, as the API sends it."""

from typing import Any

from app.simulator.script import Block, ServerToolResult, ServerToolUse

SNOW = "https://weather.example/snow"


def found(*urls: str, title: str = "Snow", **fields: Any) -> list[dict[str, Any]]:
    """The pages of a search."""
    page = {"type": "web_search_result", "title": title, "encrypted_content": "RW5jcnlwdGVk", **fields}
    return [{**page, "url": url} for url in urls or (SNOW,)]


def page(url: str = SNOW, *, title: str = "Snow", text: str = "It snows.") -> dict[str, Any]:
    """A page that was fetched."""
    source = {"type": "text", "media_type": "text/plain", "data": text}
    document = {"type": "document", "source": source, "title": title, "citations": {"enabled": True}}
    at = "2026-11-26T10:00:00Z"
    return {"type": "web_fetch_result", "url": url, "retrieved_at": at, "content": document}


def cited(url: str = SNOW, *, text: str = "It snows.") -> dict[str, Any]:
    """A citation of a page that a search has found."""
    place = {"type": "web_search_result_location", "encrypted_index": "RWluZGV4"}
    return {**place, "url": url, "title": "Snow", "cited_text": text}


def cited_document(title: str = "Snow") -> dict[str, Any]:
    """A citation of a fetched page: it has no address."""
    place = {"type": "char_location", "document_index": 0, "start_char_index": 0, "end_char_index": 9}
    return {**place, "document_title": title, "file_id": None, "cited_text": "It snows."}


def failed(kind: str, code: str) -> dict[str, Any]:
    """A failure of a tool."""
    return {"type": f"{kind}_tool_result_error", "error_code": code}


def a_search(call_id: str = "srvtoolu_01search", *, content: Any = None) -> list[Block]:
    """A search and what it has found."""
    result = found() if content is None else content
    return [
        ServerToolUse("web_search", {"query": "snow"}, call_id),
        ServerToolResult("web_search_tool_result", call_id, result),
    ]


def a_fetch(*, content: Any = None) -> list[Block]:
    """A page that is fetched."""
    call_id, result = "srvtoolu_01fetch", page() if content is None else content
    return [
        ServerToolUse("web_fetch", {"url": SNOW}, call_id),
        ServerToolResult("web_fetch_tool_result", call_id, result),
    ]


def used(*, searches: int = 0, fetches: int = 0) -> dict[str, Any]:
    """The final usage of a message that has used the web."""
    counts = {"web_search_requests": searches, "web_fetch_requests": fetches}
    return {"output_tokens": 20, "server_tool_use": counts}
