"""The calls of batches, one function for each."""

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any
from uuid import uuid4

from runtally.errors import InvalidResponse
from runtally.model import read
from runtally.options import Prompt, RunOptions, body_of
from runtally.protocol.call import Call, Page, nothing, one, page_call, segment
from runtally.types import Batch, BatchPreview, BatchResult

_TYPE = "application/jsonl"


def lines_of(graph: str, prompts: Mapping[str, Prompt], options: RunOptions) -> bytes:
    """One line for each prompt, with its key as `customId` and the same options."""
    return joined(
        {
            "customId": custom_id,
            "request": {
                name: value
                for name, value in body_of(custom_id, graph, prompt, options=options).items()
                if name != "runId"
            },
        }
        for custom_id, prompt in prompts.items()
    )


def joined(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Lines of JSON."""
    return "".join(f"{json.dumps(line, allow_nan=False)}\n" for line in lines).encode("ascii")


def create_batch(lines: bytes, *, parallelism: int, max_usd: Decimal | None) -> Call[Batch]:
    """Start a batch; the key makes a repeated request the same batch."""
    query = {"parallelism": str(parallelism)}
    query |= {} if max_usd is None else {"maxUsd": f"{max_usd:f}"}
    headers = {"Idempotency-Key": str(uuid4()), "Content-Type": _TYPE}
    return Call(
        method="POST", path="/v1/batches", query=query, content=lines, headers=headers, parse=one(Batch)
    )


def preview_batch(lines: bytes, *, parallelism: int) -> Call[BatchPreview]:
    """Check a batch and forecast its cost."""
    return Call(
        method="POST",
        path="/v1/batches/preview",
        query={"parallelism": str(parallelism)},
        content=lines,
        headers={"Content-Type": _TYPE},
        parse=one(BatchPreview),
    )


def list_batches(cursor: str | None) -> Call[Page[Batch]]:
    """A page of batches."""
    return page_call("/v1/batches", Batch, cursor)


def get_batch(batch_id: str) -> Call[Batch]:
    """The state of a batch."""
    return Call(method="GET", path=_batch(batch_id), parse=one(Batch))


def cancel_batch(batch_id: str) -> Call[Batch]:
    """Cancel a batch."""
    return Call(method="POST", path=f"{_batch(batch_id)}/cancel", parse=one(Batch))


def delete_batch(batch_id: str) -> Call[None]:
    """Delete an ended batch; a repeated request would not find it."""
    return Call(method="DELETE", path=_batch(batch_id), parse=nothing, repeatable=False)


def list_results(batch_id: str) -> Call[list[BatchResult]]:
    """The results of the items that have ended."""
    return Call(method="GET", path=f"{_batch(batch_id)}/results", parse=_results, is_json=False)


def _results(content: bytes) -> list[BatchResult]:
    try:
        lines = [json.loads(line) for line in content.splitlines()]
    except ValueError as error:
        raise InvalidResponse("The server's results of a batch are not lines of JSON.") from error
    return [read(BatchResult, line) for line in lines]


def _batch(batch_id: str) -> str:
    return f"/v1/batches/{segment(batch_id)}"
