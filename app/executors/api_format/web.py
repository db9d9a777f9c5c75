"""WebEvents: uses of the provider's web tools -> the events that clients get; pure.

What the provider found is not checked by anybody: only addresses, titles and ages of pages reach clients.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args
from urllib.parse import urlsplit

from pydantic import JsonValue

from app.events import Citation, OutputEvent, ToolCallResult, ToolCallStart
from app.usage.records import WebTool

PAUSED: Final = "pause_turn"
"""Why a message stopped in which the provider has used its tools often: the next one continues it."""

MOST_PAUSES: Final = 10
"""How often a turn may be paused."""

_MOST_PAGES: Final = 50
_URL_CHARS: Final = 2_000
_TITLE_CHARS: Final = 300
_CITED_CHARS: Final = 150
_ERRORS: Final = {
    *("invalid_tool_input", "unavailable", "max_uses_exceeded", "too_many_requests", "query_too_long"),
    *("request_too_large", "url_too_long", "url_not_allowed", "url_not_in_prior_context"),
    *("url_not_accessible", "unsupported_content_type", "content_too_large"),
}
"""What the provider calls failures; clients see others as `failed`."""


@dataclass(slots=True)
class WebEvents:
    """Those of one run."""

    _begun: dict[str, str | None] = field(default_factory=dict)
    """By the id of a call without a result: the call that started its subagent."""
    _ids: set[str] = field(default_factory=set)
    _fetched: dict[str, str] = field(default_factory=dict)
    """Addresses of fetched pages by title, the only thing by which citations name them."""

    def call(self, block: Mapping[str, Any], args: Any, parent: str | None) -> Iterator[OutputEvent]:
        """The event of a complete block `server_tool_use`."""
        call_id, name = block.get("id"), block.get("name")
        if not isinstance(call_id, str) or call_id in self._ids or name not in get_args(WebTool):
            return
        self._ids.add(call_id)
        self._begun[call_id] = parent
        yield ToolCallStart(tool_call_id=call_id, tool_name=str(name), args=args, parent_tool_call_id=parent)

    def result(self, block: Mapping[str, Any]) -> Iterator[OutputEvent]:
        """The event of a block with what a call has found."""
        call_id = block.get("tool_use_id")
        if call_id in self._begun:
            content = block.get("content")
            pages = list(self._pages(content))
            error = _error_of(content)
            found: JsonValue = {"pages": pages} if error is None else {"error": error}
            yield self._end(call_id, found, is_error=error is not None)

    def unread_results(self, parent: str) -> Iterator[OutputEvent]:
        """The events of a subagent's calls, whose results have arrived and are not readable."""
        for call_id in [call_id for call_id, of in self._begun.items() if of == parent]:
            yield self._end(call_id, {}, is_error=False)

    def unfinished(self) -> Iterator[OutputEvent]:
        for call_id in list(self._begun):
            yield self._end(call_id, {"error": "failed"}, is_error=True)

    def citation(self, found: Any, message_id: str, parent: str | None) -> Iterator[OutputEvent]:
        """The event of a citation; none for one without a page."""
        if not isinstance(found, dict):
            return
        title = _text(found.get("title") or found.get("document_title"), _TITLE_CHARS)
        url = _address(found["url"]) if "url" in found else self._fetched.get(title)
        if url is not None:
            yield Citation(
                message_id=message_id,
                url=url,
                title=title or None,
                cited_text=_text(found.get("cited_text"), _CITED_CHARS),
                parent_tool_call_id=parent,
            )

    def _end(self, call_id: Any, result: JsonValue, *, is_error: bool) -> ToolCallResult:
        parent = self._begun.pop(call_id)
        return ToolCallResult(
            tool_call_id=call_id, result=result, is_error=is_error, parent_tool_call_id=parent
        )

    def _pages(self, content: Any) -> Iterator[JsonValue]:
        found = content if isinstance(content, list) else [content]
        for page in found[:_MOST_PAGES]:
            if not isinstance(page, dict) or (url := _address(page.get("url"))) is None:
                continue
            document = page.get("content")
            title = _text(
                document.get("title") if isinstance(document, dict) else page.get("title"), _TITLE_CHARS
            )
            if isinstance(document, dict) and title:
                self._fetched[title] = url
            age = _text(page.get("page_age"), _TITLE_CHARS)
            shown: dict[str, JsonValue] = {"url": url, "title": title}
            yield {**shown, "pageAge": age} if age else shown


def _error_of(content: Any) -> str | None:
    if not isinstance(content, dict) or "error_code" not in content:
        return None
    code = content["error_code"]
    return code if isinstance(code, str) and code in _ERRORS else "failed"


def _address(url: Any) -> str | None:
    """The address of a page; None for a script, and for one that shows a name before its host."""
    if not isinstance(url, str) or len(url) > _URL_CHARS or not url.isprintable() or " " in url:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and "\\" not in url
    return url if is_web and "@" not in parts.netloc else None


def _text(value: Any, chars: int) -> str:
    return value[:chars] if isinstance(value, str) else ""
