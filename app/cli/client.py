"""`runtally run`, `receipts` and `export`: a terminal client of a running server."""

import json
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Unpack

from rich.console import Console

from app.cli.terminal import print_rows, working
from runtally import AsyncClient, Event, Receipt, TextDelta, ThinkingDelta, UnknownEvent
from runtally.options import Prompt, RunOptions
from runtally.protocol.call import Call

_RECEIPT_COLUMNS = {
    "usage_unit_id": "message",
    "model": "model",
    "input_tokens": "in",
    "output_tokens": "out",
    "cache_read_tokens": "cache read",
    "cost_usd": "cost USD",
    "charged_credits": "credits",
    "basis": "basis",
}
_NEWEST = 50


async def run_graph(console: Console, graph: str, prompt: str, *, as_json: bool = False) -> None:
    """Run a graph on the server of the environment and print its events."""
    async with AsyncClient() as client:
        await show_run(client, console, graph, prompt, as_json=as_json)


async def show_receipts(console: Console, run_id: str | None, *, as_json: bool = False) -> None:
    """Print the receipts of a run, oldest first, or the newest of the account."""
    async with AsyncClient() as client:
        found = await _receipts(client, run_id)
    if as_json:
        console.print_json(data=[receipt.model_dump(mode="json", by_alias=True) for receipt in found])
    else:
        print_receipts(console, found)


async def export(output: BinaryIO, name: str, **query: str) -> None:
    """Write an export of the account's bills."""
    async with AsyncClient() as client:
        call = Call(method="GET", path=f"/v1/exports/{name}", query=query, parse=bytes, is_json=False)
        with working("Waiting for the server…"):
            written = await client.call(call)
    output.write(written)


async def show_run(
    client: AsyncClient,
    console: Console,
    graph: str,
    prompt: Prompt,
    *,
    as_json: bool = False,
    **options: Unpack[RunOptions],
) -> str:
    """Start a run and print its events as they arrive; returns the run's id.

    Raises `RunFailed` for a run that ended without an answer.
    """
    async with client.stream(graph, prompt, **options) as stream:
        async for event in stream:
            for text in _json_lines(event) if as_json else _lines(event):
                console.print(text, end="", markup=False, highlight=False, soft_wrap=True)
        if not as_json:
            console.print()
        stream.final.raise_for_error()
        return stream.run_id


def print_receipts(console: Console, receipts: Sequence[Receipt]) -> None:
    """Print the receipts as rows."""
    rows = [
        {title: str(getattr(receipt, name)) for name, title in _RECEIPT_COLUMNS.items()}
        for receipt in receipts
    ]
    print_rows(console, rows, title="Receipts")


async def _receipts(client: AsyncClient, run_id: str | None) -> list[Receipt]:
    if run_id is not None:
        return await client.run_receipts(run_id)
    newest: list[Receipt] = []
    async for receipt in client.receipts():
        newest.append(receipt)
        if len(newest) == _NEWEST:
            break
    return newest


def _json_lines(event: Event) -> Iterator[str]:
    data = event.data if isinstance(event, UnknownEvent) else event.model_dump(mode="json", by_alias=True)
    # In ASCII: what a model wrote may contain what a terminal obeys.
    yield json.dumps(data) + "\n"


def _lines(event: Event) -> Iterator[str]:
    """Format an event for the terminal: text as it streams, anything else on its own line."""
    match event:
        case TextDelta(delta=delta) | ThinkingDelta(delta=delta):
            yield delta
        case UnknownEvent(type=kind, data=data):
            yield f"\n[{kind}] {json.dumps(data, ensure_ascii=False)}\n"
        case _:
            fields = event.model_dump(mode="json", by_alias=True, exclude={"type"}, exclude_none=True)
            yield f"\n[{event.type}] {json.dumps(fields, ensure_ascii=False)}\n"
