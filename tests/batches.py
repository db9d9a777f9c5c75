"""What tests of batches need: lines, and a batch that is posted and followed to its end."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import httpx

from tests.patience import until_shown

JSON_LINES = {"Content-Type": "application/jsonl"}


def a_line(custom_id: str, prompt: str, *, graph: str, **fields: Any) -> dict[str, Any]:
    """One line of a batch."""
    messages = [{"role": "user", "content": prompt}]
    return {"customId": custom_id, "request": {"graphId": graph, "messages": messages, **fields}}


def joined(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """The lines as a body."""
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


async def post(
    http: httpx.AsyncClient, lines: Iterable[Mapping[str, Any]] | bytes, **options: Any
) -> httpx.Response:
    """Post a batch; `options` are its query and `headers`."""
    headers = {**JSON_LINES, **options.pop("headers", {})}
    body = lines if isinstance(lines, bytes) else joined(lines)
    return await http.post("/v1/batches", content=body, params=options, headers=headers)


async def created(http: httpx.AsyncClient, lines: Iterable[Mapping[str, Any]], **options: Any) -> str:
    """The path of a new batch."""
    answer = await post(http, lines, **options)
    assert answer.status_code == 202, answer.text
    return answer.headers["location"]


async def ended(http: httpx.AsyncClient, path: str) -> dict[str, Any]:
    """The batch, once it has ended."""
    batch: dict[str, Any] = await until_shown(http, path, lambda batch: batch["endedAt"] is not None)
    return batch


async def results(http: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    """Its results so far, in the order in which they come."""
    text = (await http.get(f"{path}/results")).raise_for_status().text
    return [json.loads(line) for line in text.splitlines()]
