"""RequestCodec: a run's request as the text that is kept of it, its fingerprint, and back again."""

import hashlib
import json
from functools import partial

from pydantic_core import from_json

from app.concurrency.offload import Offload
from app.large_json import dumps, with_marks
from app.requests import GraphRunRequest


class RequestCodec:
    """Converts requests; large ones in a thread."""

    def __init__(self, offload: Offload) -> None:
        self._offload = offload

    async def fingerprint(self, request: GraphRunRequest) -> bytes:
        """Equal for equal requests, whatever their run id and however they were written."""
        return await self._offload.run(partial(_fingerprint, request), size=request.size)

    async def encode(self, request: GraphRunRequest) -> str:
        """The JSON that is kept: all but the files, which are kept apart."""
        return await self._offload.run(partial(_encode, request), size=request.size)

    async def decode(self, text: str) -> GraphRunRequest:
        """Read back what `encode` wrote."""
        return await self._offload.run(partial(_decode, text), size=len(text))


def _fingerprint(request: GraphRunRequest) -> bytes:
    plain = request.model_dump(mode="json", exclude={"run_id"}, exclude_none=True)
    # Long texts need not be written as JSON to be compared. No text of a request holds U+0000, so none can
    # pass for the hash of another one.
    marked = with_marks(plain, lambda text: f"\0{hashlib.sha256(text.encode()).hexdigest()}")
    return hashlib.sha256(json.dumps(marked, sort_keys=True).encode()).digest()


def _decode(text: str) -> GraphRunRequest:
    # In two steps, which take a fourth of the time of `model_validate_json`.
    return GraphRunRequest.model_validate(from_json(text))


def _encode(request: GraphRunRequest) -> str:
    return dumps(request.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"files"}))
