"""`runtally run`, `receipts` and `export`: a terminal client of a running server."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple, Unpack

from rich.console import Console

from app.cli.terminal import minutes, print_rows, print_words, working
from runtally import AsyncClient, Event, Receipt, TextDelta, ThinkingDelta, UnknownEvent, events
from runtally.options import Prompt, RunOptions
from runtally.protocol.call import Call

_RECEIPT_COLUMNS = {
    "model": "model",
    "input_tokens": "in",
    "output_tokens": "out",
    "cache_read_tokens": "cached",
    "cost_usd": "cost USD",
    "basis": "basis",
}
_NEWEST = 50
_SUBAGENT = "  │"
_PIECES = re.compile(r"\n|[^\S\n]*[^\s]+|[^\S\n]+")
"""Line breaks, and words with the spaces before them."""


class _Line(NamedTuple):
    text: str
    style: str


@dataclass(slots=True)
class EventScreen:
    """A console with the events of runs, one below the other, in a form for people; text as it streams."""

    console: Console
    _column: int = field(default=0, init=False)
    """Where the text of a message continues; 0 if none is shown."""
    _text_style: str = field(default="", init=False)

    def event(self, event: Event) -> None:
        indent = _SUBAGENT if getattr(event, "parent_tool_call_id", None) else " "
        if isinstance(event, TextDelta):
            self._text(event.delta, indent=f"{indent} ", style="")
        elif isinstance(event, ThinkingDelta):
            self._text(event.delta, indent=f"{indent} ", style="dim")
        elif not _repeats(event):
            line = _line_of(event)
            self.line(f"{indent} {line.text}", style=line.style)

    def line(self, text: str, *, style: str) -> None:
        """Show a line, below the text of a message."""
        self.end_text()
        print_words(self.console, text, style=style)

    def end_text(self) -> None:
        """What follows begins a line."""
        if self._column:
            self.console.print()
            self._column = 0

    def _text(self, delta: str, *, indent: str, style: str) -> None:
        """A piece of a streamed text: the console wraps whole texts only."""
        if style != self._text_style:
            self.end_text()
            self._text_style = style
        if not self._column:
            delta = delta.lstrip()
        for piece in _PIECES.findall(delta):
            shown = "" if piece == "\n" else piece
            if self._column and (not shown or self._is_full(shown)):
                self.end_text()
                shown = shown.lstrip()
            if shown and not self._column:
                shown = indent + shown
            self._column += len(shown)
            self.console.print(shown, end="", style=style, markup=False, highlight=False, soft_wrap=True)

    def _is_full(self, word: str) -> bool:
        return word[0].isspace() and self._column + len(word) > self.console.width


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
) -> None:
    """Start a run and print its events as they arrive.

    Raises `RunFailed` for a run that ended without an answer.
    """
    screen = EventScreen(console)
    async with client.stream(graph, prompt, **options) as stream:
        async for event in stream:
            if as_json:
                console.print(_json_line(event), markup=False, highlight=False, soft_wrap=True)
            else:
                screen.event(event)
        screen.end_text()
        stream.final.raise_for_error()


def print_receipts(console: Console, receipts: Sequence[Receipt]) -> None:
    rows = [
        {
            "used": minutes(receipt.used_at),
            **{title: str(getattr(receipt, name)) for name, title in _RECEIPT_COLUMNS.items()},
        }
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


def _json_line(event: Event) -> str:
    data = event.data if isinstance(event, UnknownEvent) else event.model_dump(mode="json", by_alias=True)
    # In ASCII: what a model wrote may contain what a terminal obeys.
    return json.dumps(data)


def _repeats(event: Event) -> bool:
    """Whether it says what other lines have said."""
    is_text = isinstance(event, events.AssistantFinal) and event.structured_output is None
    return is_text or isinstance(event, events.Status | events.Step)


def _line_of(event: Event) -> _Line:
    line = _other(event)
    match event:
        case events.RunStarted(run_id=run_id, attempt=attempt, model=model):
            line = _Line(f"run {run_id}, attempt {attempt}: {model}", "dim")
        case events.ToolCallStart(tool_name=name, args=args):
            line = _Line(f"→ {name} {_json(args)}", "cyan")
        case events.ToolCallResult(result=result, is_error=is_error):
            line = _Line(f"← {_json(result)}", "red" if is_error else "cyan")
        case events.PermissionRequest(tool_name=name):
            line = _Line(f"? {name} needs consent", "yellow")
        case events.PermissionResolved(decision=decision):
            line = _Line(f"! {decision}", "yellow")
        case events.RunError(error=error):
            line = _Line(f"error: {error}", "red")
        case events.Done(usage=usage, finish_reason=reason):
            line = _Line(f"done: {reason}, {usage.prompt_tokens} + {usage.completion_tokens} tokens", "dim")
    return line


def _other(event: Event) -> _Line:
    data = event.data if isinstance(event, UnknownEvent) else event.model_dump(mode="json", by_alias=True)
    fields = {name: value for name, value in data.items() if name not in {"type", "at"} and value is not None}
    return _Line(f"[{event.type}] {_json(fields)}", "dim")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
