"""Call: a request to the API and how its response is read. Both clients send the same calls."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

import httpx
from pydantic.alias_generators import to_camel

from runtally.errors import InvalidResponse
from runtally.model import ModelT, read
from runtally.options import (
    ApprovalFilters,
    ConversationFilters,
    ReceiptFilters,
    RunFilters,
    UsageOptions,
    moment,
)
from runtally.protocol.connection import bytes_of, json_of, require_success

T = TypeVar("T")
Item = TypeVar("Item")


class Page(NamedTuple, Generic[Item]):
    """One page of a list; `next_cursor` is None on the last page."""

    items: list[Item]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request; `repeatable` if the server may get it twice."""

    method: str
    path: str
    parse: Callable[[Any], T]
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content: bytes | None = None
    """Instead of `body`: what is no JSON; its type is in the headers."""
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    is_json: bool = True
    """Whether the response is JSON; of any other the bytes are parsed."""

    def options(self) -> dict[str, Any]:
        """The arguments of httpx."""
        headers = dict(self.headers)
        content = self.content
        if self.body is not None:
            # In ASCII: the server can then refuse what cannot be encoded, with the name of its field.
            content = json.dumps(self.body, allow_nan=False).encode("ascii")
            headers["Content-Type"] = "application/json"
        return {"params": dict(self.query), "content": content, "headers": headers}

    def result(self, response: httpx.Response) -> T:
        """What the response contains; raises `ApiError` or `InvalidResponse`."""
        require_success(response)
        if not self.is_json:
            return self.parse(bytes_of(response))
        return self.parse(json_of(response) if response.content else None)


class Send(Protocol):
    """Sends a call as often as it takes: `Client.call`."""

    def __call__(self, call: Call[T], /) -> T:
        """The result; raises `RuntallyError`."""
        ...


class AsyncSend(Protocol):
    """The same for asyncio: `AsyncClient.call`."""

    async def __call__(self, call: Call[T], /) -> T:
        """The result; raises `RuntallyError`."""
        ...


_PAGE_LIMIT = 200
_FILTERS = {
    name: {"since": "from", "until": "to"}.get(name) or to_camel(name)
    for options in (ApprovalFilters, ConversationFilters, ReceiptFilters, RunFilters, UsageOptions)
    for name in options.__annotations__
}
"""The names of queries, by those of the options."""


def query_of(
    options: ApprovalFilters | ConversationFilters | ReceiptFilters | RunFilters | UsageOptions,
) -> dict[str, str]:
    """The query of these options; raises `TypeError` for unknown ones."""
    query = {}
    for name, value in options.items():
        if name not in _FILTERS:
            raise TypeError(f"unknown option {name!r}; known are {', '.join(sorted(_FILTERS))}")
        query[_FILTERS[name]] = _in_query(value)
    return query


def _in_query(value: object) -> str:
    if isinstance(value, datetime):
        return moment(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def page_call(
    path: str, model: type[ModelT], cursor: str | None, query: Mapping[str, str] | None = None
) -> Call[Page[ModelT]]:
    """The page of a list after a cursor, or the first one."""
    return Call(method="GET", path=path, query={**(query or {}), **page_query(cursor)}, parse=page(model))


def page_query(cursor: str | None) -> dict[str, str]:
    """The query of that page."""
    first = {"limit": str(_PAGE_LIMIT)}
    return first if cursor is None else {**first, "cursor": cursor}


def one(model: type[ModelT]) -> Callable[[Any], ModelT]:
    """Read a response as this model."""
    return lambda document: read(model, document)


def page(model: type[ModelT], name: str = "items") -> Callable[[Any], Page[ModelT]]:
    """Read a response as a page of these; `name` is the field with the items."""

    def parse(document: Any) -> Page[ModelT]:
        items = document.get(name) if isinstance(document, dict) else None
        if not isinstance(items, list):
            raise InvalidResponse(f"The server's list of {model.__name__} has no {name}.")
        cursor = document.get("nextCursor")
        return Page([read(model, item) for item in items], None if cursor is None else str(cursor))

    return parse


def nothing(_document: Any) -> None:
    """Read nothing of a response."""


def segment(name: str) -> str:
    """One segment of a path; raises `ValueError` for what would be another path."""
    if name in {"", ".", ".."}:
        raise ValueError(f"{name!r} is no id")
    return quote(name, safe="")
