"""RequestCodec: a run's request as the text that is kept of it, its fingerprint, and back again."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pydantic_core import from_json

from app.graph import GraphRunRequest
from app.offload import Offload

_LONG_CHARS = 1024
_WRITTEN_AT_ONCE = 262_144
"""Characters, between which other threads have their turn."""

_MARK = re.compile(r'"\\u0000([0-9]+)"')


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
    # Long texts need not be written as JSON to be compared.
    marked = _with_marks(plain, lambda text: hashlib.sha256(text.encode()).hexdigest())
    return hashlib.sha256(json.dumps(marked, sort_keys=True).encode()).digest()


def _decode(text: str) -> GraphRunRequest:
    # In two steps, which take a fourth of the time of `model_validate_json`.
    return GraphRunRequest.model_validate(from_json(text))


def _encode(request: GraphRunRequest) -> str:
    """To write a text of 19 MB at once would keep the event loop waiting for the interpreter."""
    plain = request.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"files"})
    texts: list[str] = []

    def mark(text: str) -> str:
        texts.append(text)
        return str(len(texts) - 1)

    short, *rest = _MARK.split(_json(_with_marks(plain, mark)))
    pieces = [short]
    for number, short in zip(rest[::2], rest[1::2], strict=True):
        pieces += ['"', *_written(texts[int(number)]), '"', short]
    return "".join(pieces)


def _written(text: str) -> Iterator[str]:
    for start in range(0, len(text), _WRITTEN_AT_ONCE):
        yield _json(text[start : start + _WRITTEN_AT_ONCE])[1:-1]


def _with_marks(value: Any, mark: Callable[[str], str]) -> Any:
    """The same with marks for long texts: U+0000, which no text of a request holds, and what `mark` says."""
    match value:
        case str() if len(value) > _LONG_CHARS:
            return f"\0{mark(value)}"
        case dict():
            return {name: _with_marks(each, mark) for name, each in value.items()}
        case list():
            return [_with_marks(each, mark) for each in value]
        case _:
            return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
