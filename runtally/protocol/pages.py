"""The pages of a list, one after the other."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

from runtally.errors import InvalidResponse
from runtally.protocol.call import Call, Page

T = TypeVar("T")


def each(
    send: Callable[[Call[Page[T]]], Page[T]], call: Callable[[str | None], Call[Page[T]]]
) -> Iterator[T]:
    """Yield the items of all pages; a page is requested when the items before it were taken."""
    page = send(call(None))
    while True:
        yield from page.items
        if page.next_cursor is None:
            return
        page = _moved(page, send(call(page.next_cursor)))


async def each_async(
    send: Callable[[Call[Page[T]]], Awaitable[Page[T]]], call: Callable[[str | None], Call[Page[T]]]
) -> AsyncIterator[T]:
    """Yield the items of all pages; a page is requested when the items before it were taken."""
    page = await send(call(None))
    while True:
        for item in page.items:
            yield item
        if page.next_cursor is None:
            return
        page = _moved(page, await send(call(page.next_cursor)))


def _moved(page: Page[T], following: Page[T]) -> Page[T]:
    """The following page; raises `InvalidResponse` if it would be read forever."""
    if following.next_cursor == page.next_cursor:
        raise InvalidResponse("The server's list does not end: two pages have the same nextCursor.")
    return following
