"""A conversation as one document, of which only one page is held."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final, Literal, TypeAlias

from app.http.api.conversations.schemas import (
    ConversationDetailResponse,
    ConversationMessageResponse,
    RunResultResponse,
)
from app.http.streaming.line_export import LineExport
from app.http.streaming.sse import ReaderScope

ExportFormat: TypeAlias = Literal["markdown", "json"]
PageAfter: TypeAlias = Callable[[str | None], Awaitable[ConversationDetailResponse]]

_MARKDOWN: Final = "text/markdown; charset=utf-8"
_JSON: Final = "application/json"
EXPORTS: Final[dict[str, dict[str, Any]]] = {
    "text/markdown": {"schema": {"type": "string"}},
    _JSON: {"schema": {"$ref": "#/components/schemas/ConversationDetailResponse"}},
}
"""The contents of the route's response."""

_FENCES = re.compile(r"`{3,}")
_HEADINGS: Final = {"user_message": "User", "assistant_message": "Assistant"}


async def export_conversation(
    page_after: PageAfter, format_: ExportFormat, *, reader_scope: ReaderScope
) -> LineExport:
    """Stream all pages as one document."""
    # Read before the response begins, so that an error can still be a problem document.
    first = await page_after(None)
    pieces = _markdown if format_ == "markdown" else _json
    return LineExport(
        pieces(first, page_after),
        media_type=_MARKDOWN if format_ == "markdown" else _JSON,
        filename=f"conversation.{'md' if format_ == 'markdown' else 'json'}",
        reader_scope=reader_scope,
    )


async def _pages(
    first: ConversationDetailResponse, page_after: PageAfter
) -> AsyncIterator[ConversationDetailResponse]:
    page = first
    yield page
    while page.next_cursor is not None:
        page = await page_after(page.next_cursor)
        yield page


async def _json(first: ConversationDetailResponse, page_after: PageAfter) -> AsyncIterator[str]:
    """The first page's document, with the messages of all pages."""
    head = first.model_dump_json(by_alias=True, exclude={"messages", "next_cursor"})
    yield f'{head.removesuffix("}")},"nextCursor":null,"messages":['
    separator = ""
    async for page in _pages(first, page_after):
        messages = [each.model_dump_json(by_alias=True, exclude_unset=True) for each in page.messages]
        if messages:
            yield separator + ",".join(messages)
            separator = ","
    yield "]}"


async def _markdown(first: ConversationDetailResponse, page_after: PageAfter) -> AsyncIterator[str]:
    yield f"# {' '.join((first.title or first.state_key).split())}\n"
    speaker = ""
    async for page in _pages(first, page_after):
        for message in page.messages:
            heading = _HEADINGS.get(message.type, "")
            if heading and heading != speaker:
                speaker = heading
                yield f"\n## {heading}{_time(message)}\n"
            for paragraph in _paragraphs(message):
                yield f"\n{paragraph}\n"


def _time(message: ConversationMessageResponse | RunResultResponse) -> str:
    at = message.at if isinstance(message, ConversationMessageResponse) else None
    return "" if at is None else f" ({at})"


def _paragraphs(message: ConversationMessageResponse | RunResultResponse) -> Iterator[str]:
    match message:
        case RunResultResponse():
            if message.error is not None:
                yield f"*The run ended with an error: `{message.error}`.*"
        case ConversationMessageResponse(type="system_message"):
            yield "*Earlier messages were summarized for the model.*"
        case ConversationMessageResponse(type="tool_call"):
            yield from _tool_call(message)
        case _:
            if message.content:
                yield message.content
            for each in message.attachments or ():
                yield f"*Attachment: {each.title or each.url or each.media_type or each.type}*"
            for cited in message.citations or ():
                yield f"Source: {cited.title or ''} <{cited.url}>"


def _tool_call(call: ConversationMessageResponse) -> Iterator[str]:
    yield f"**Tool call:** `{call.tool_name}`"
    yield _code(call.args)
    if call.result is not None:
        yield "**Error:**" if call.is_error else "**Result:**"
        yield _code(call.result)


def _code(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    # Longer than any fence inside, which would end it.
    fence = "`" * (1 + max((len(found) for found in _FENCES.findall(text)), default=2))
    return f"{fence}{'' if isinstance(value, str) else 'json'}\n{text}\n{fence}"
