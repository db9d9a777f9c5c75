"""RequestCodec: builds, encodes, decodes and fingerprints the requests of runs."""

import hashlib
import json
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final

from pydantic_core import from_json

from app.ids import AccountId
from app.platform.concurrency.fair_semaphore import FairSemaphore
from app.platform.concurrency.offload import Offload
from app.platform.db import Transaction
from app.platform.objects.documents import StoredDocument, extracted
from app.platform.objects.service import INSIDE, Objects
from app.platform.serialization.large_json import dumps, with_marks
from app.requests.messages import Message
from app.requests.run_request import GraphRunRequest

_MESSAGE_BYTES: Final = 512
"""Converting a posted message is about as much work as reading so many bytes."""

_LARGE_REQUESTS_AT_ONCE: Final = 2
"""More concurrent writes would leave the database and the event loop no time for small requests."""

_NOT_COUNTED: Final = {"run_id", "client_tools", "on_disconnect"}


class RequestCodec:
    """Works on large requests in a thread."""

    def __init__(self, offload: Offload, objects: Objects = INSIDE) -> None:
        self._offload, self._objects = offload, objects
        self._large_requests = FairSemaphore(_LARGE_REQUESTS_AT_ONCE)

    def large_request(self, account_id: AccountId) -> AbstractAsyncContextManager[None]:
        """Limits concurrent large requests, fairly between accounts."""
        return self._large_requests.slot(str(account_id))

    async def build(
        self, build: Callable[[], GraphRunRequest], *, messages: int, chars: int
    ) -> GraphRunRequest:
        """Build a request from so many posted messages, which have about so many characters."""
        return await self._offload.run(build, size=messages * _MESSAGE_BYTES + chars)

    async def fingerprint(self, request: GraphRunRequest) -> bytes:
        """A hash that is equal for equal requests, whatever their run id and JSON formatting.

        Client tools and `onDisconnect` do not count: an application that comes back to a run may offer
        others meanwhile, and the operator may have another default; the run keeps what it was started with.
        """
        return await self._offload.run(partial(_fingerprint, request), size=request.size)

    async def encode(self, account_id: AccountId, request: GraphRunRequest) -> StoredDocument:
        """What is stored: everything but files and metadata, which are stored separately.

        What is stored outside the database is written. Raises `ContentsUnavailable`.
        """
        if not self._objects.takes(request.size):
            text = await self._offload.run(partial(encoded, request), size=request.size)
            return StoredDocument(account_id, text)
        text, contents = await self._offload.run(partial(_parts_of, request), size=request.size)
        await self._objects.write(account_id, contents)
        return StoredDocument(account_id, text, frozenset(contents))

    async def hold(self, tx: Transaction, account_id: AccountId, objects: Collection[str]) -> None:
        """Keep what was written for a request that this transaction stores. Raises `ContentsUnavailable`."""
        await self._objects.hold(tx, account_id, objects)

    async def read(self, document: StoredDocument) -> str:
        """The JSON of a stored request; raises `ContentsUnavailable`, `ContentLost`."""
        return await self._objects.text(document)

    async def encode_with_files(self, request: GraphRunRequest) -> str:
        """The same with its files, for a request that is no run yet."""
        return await self._offload.run(partial(encoded, request, with_files=True), size=request.size)

    async def decode_messages(self, text: str) -> list[Message]:
        """Only its messages: other fields may be those of a later release."""
        return await self._offload.run(partial(_decode_messages, text), size=len(text))

    async def has_schema(self, text: str) -> bool:
        """Whether the answer has to match a schema."""
        request = await self._offload.run(partial(from_json, text), size=len(text))
        return request.get("responseFormat") is not None

    async def decode(self, text: str) -> GraphRunRequest:
        """The request that was encoded, with what files it has there."""
        return await self._offload.run(partial(_decode, text), size=len(text))


def _fingerprint(request: GraphRunRequest) -> bytes:
    plain = request.model_dump(mode="json", exclude=_NOT_COUNTED, exclude_none=True)
    # Long texts are hashed instead of written as JSON. No text of a request contains U+0000, so no text
    # can equal the marked hash of another one.
    marked = with_marks(plain, lambda text: f"\0{hashlib.sha256(text.encode()).hexdigest()}")
    return hashlib.sha256(json.dumps(marked, sort_keys=True).encode()).digest()


def _decode(text: str) -> GraphRunRequest:
    # In two steps: takes a quarter of the time of `model_validate_json`.
    return GraphRunRequest.model_validate(from_json(text))


def _decode_messages(text: str) -> list[Message]:
    return [Message.model_validate(each) for each in from_json(text)["messages"]]


def encoded(request: GraphRunRequest, *, with_files: bool = False) -> str:
    """Its JSON, with its files and metadata or without them."""
    return dumps(_fields_of(request, with_files=with_files))


def _parts_of(request: GraphRunRequest) -> tuple[str, dict[str, bytes]]:
    fields, contents = extracted(_fields_of(request))
    return dumps(fields), contents


def _fields_of(request: GraphRunRequest, *, with_files: bool = False) -> dict[str, Any]:
    # The input is checked, and is the message.
    exclude = {"input"} if with_files else {"input", "files", "metadata"}
    # Without defaults: the release before, which may execute a queued run, knows no field that is new.
    return request.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, exclude=exclude
    )
