"""`runtally batches`: starts batches of requests on the server of the environment, and shows them."""

import json
import sys
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.errors import EXIT_FAILED, Commands
from app.cli.terminal import AsJson, Terminal, minutes, print_entries, print_words

if TYPE_CHECKING:
    from runtally import Batch, BatchResult, Forecast

batches = Commands(help="Batches of requests: run, list, show, results, cancel.", no_args_is_help=True)
_output, _console = Terminal(highlight=False), Terminal(stderr=True, highlight=False)
"""Results go to standard output, so that they can be piped."""

BatchId = Annotated[str, typer.Argument(help="The id that `batches run` has printed.")]


def _dollars(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise typer.BadParameter("must be dollars, for example 5.00") from error


@batches.command("run")
async def run_batch(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="One request in each line.")],
    *,
    graph: Annotated[str | None, typer.Option(help="Of the lines that name none.")] = None,
    max_usd: Annotated[
        Decimal | None, typer.Option(parser=_dollars, help="No further item is started beyond this.")
    ] = None,
    parallelism: Annotated[int, typer.Option(min=1, max=256, help="How many at once, at most.")] = 8,
    preview: Annotated[bool, typer.Option("--preview", help="Only check it and forecast its cost.")] = False,
) -> None:
    """Run the requests of a file and print their results; exits with 1 unless all have an answer.

    Interrupting this leaves the batch running.
    """
    from runtally import AsyncClient

    lines = _with_graph(file.read_bytes(), graph)
    async with AsyncClient() as client:
        found = await client.batches.preview(lines, parallelism=parallelism)
        _console.print(f"{found.items} requests; {_expected(found.forecast)}")
        if preview:
            return
        batch = await client.batches.create_from(lines, parallelism=parallelism, max_usd=max_usd)
        _console.print(f"batch {batch.batch_id}")
        ended = await _follow(client.batches.watch(batch.batch_id), batch)
        _console.print(_line(ended))
        _write(await client.batches.results(batch.batch_id))
    if ended.counts.succeeded != ended.items:
        raise typer.Exit(EXIT_FAILED)


@batches.command("list")
async def list_batches(*, as_json: AsJson = False) -> None:
    """The account's batches, newest first."""
    from runtally import AsyncClient

    async with AsyncClient() as client:
        found = [batch async for batch in client.batches.list()]
    if as_json:
        _output.print_json(data=[batch.model_dump(mode="json", by_alias=True) for batch in found])
        return
    entries = [(batch.batch_id, f"{minutes(batch.created_at)}  {_line(batch)}") for batch in found]
    print_entries(_output, entries, title="Batches")


@batches.command("show")
async def show_batch(batch_id: BatchId, *, as_json: AsJson = False) -> None:
    """How far a batch has come, and what it has cost so far."""
    await _show(batch_id, cancel=False, as_json=as_json)


@batches.command("results")
async def batch_results(batch_id: BatchId) -> None:
    """The results so far, as lines of JSON."""
    from runtally import AsyncClient

    async with AsyncClient() as client:
        _write(await client.batches.results(batch_id))


@batches.command("cancel")
async def cancel_batch(batch_id: BatchId, *, as_json: AsJson = False) -> None:
    """Start no further item and cancel the runs of the others."""
    await _show(batch_id, cancel=True, as_json=as_json)


def _with_graph(lines: bytes, graph: str | None) -> bytes:
    """The lines, with this graph where they name none; what is no such line is for the server to refuse."""
    return lines if graph is None else b"\n".join(_named(line, graph) for line in lines.splitlines())


def _named(line: bytes, graph: str) -> bytes:
    try:
        value = json.loads(line)
    except ValueError:
        return line
    match value:
        case {"request": dict() as request} if "graphId" not in request:
            named: dict[str, Any] = {**value, "request": {"graphId": graph, **request}}
            return json.dumps(named).encode("ascii")
        case _:
            return line


async def _follow(states: AsyncIterator["Batch"], batch: "Batch") -> "Batch":
    """Show a bar until the batch has ended."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=_console, transient=True) as progress:
        task = progress.add_task("", total=batch.items)
        async for state in states:
            done = state.items - state.counts.pending - state.counts.running
            progress.update(task, completed=done, description=_spent(state))
            batch = state
    return batch


async def _show(batch_id: str, *, cancel: bool, as_json: bool) -> None:
    from runtally import AsyncClient

    async with AsyncClient() as client:
        batch = await (client.batches.cancel(batch_id) if cancel else client.batches.get(batch_id))
    if as_json:
        _output.print_json(data=batch.model_dump(mode="json", by_alias=True))
    else:
        print_words(_output, _line(batch))


def _write(results: Sequence["BatchResult"]) -> None:
    # In ASCII: an answer may contain what a terminal obeys.
    for result in results:
        sys.stdout.write(f"{json.dumps(result.model_dump(mode='json', by_alias=True))}\n")


def _expected(forecast: "Forecast | None") -> str:
    if forecast is None:
        return "there are no earlier runs to forecast from"
    cost, seconds = forecast.cost_usd, forecast.seconds
    return f"expected ${cost.p50:.2f} to ${cost.p95:.2f}, {seconds.p50:.0f} to {seconds.p95:.0f} s"


def _line(batch: "Batch") -> str:
    """The state of a batch in one line."""
    reason = "" if batch.reason in {None, batch.status} else f" ({batch.reason})"
    counts = ", ".join(f"{count} {name}" for name, count in batch.counts.model_dump().items() if count)
    return f"{batch.status}{reason}: {counts}; {_spent(batch)}"


def _spent(batch: "Batch") -> str:
    spent = "cost not shown to this key" if batch.cost_usd is None else f"${batch.cost_usd:.4f}"
    return spent if batch.max_usd is None else f"{spent} of ${batch.max_usd:.2f}"
