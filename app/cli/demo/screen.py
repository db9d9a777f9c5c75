"""Screen: how the demo shows what happens."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.demo.comparison import ComparedMessage
from runtally import Event
from runtally.events import (
    Done,
    PermissionRequest,
    PermissionResolved,
    RunError,
    RunStarted,
    TextDelta,
    ToolCallResult,
    ToolCallStart,
)

_SUBAGENT = "  │"


class _Line(NamedTuple):
    text: str
    style: str


@dataclass(slots=True)
class Screen:
    """A console with numbered scenes and the events of runs, one below the other."""

    console: Console
    _scenes: int = field(default=0, init=False)
    _column: int = field(default=0, init=False)
    """Where the text of a message continues; 0 if none is shown."""

    def scene(self, title: str, sentence: str) -> None:
        """Begin a scene."""
        self._scenes += 1
        self.console.print()
        self.console.rule(Text(f"{self._scenes}  {title}", "bold"), align="left", style="cyan")
        self.console.print(sentence, style="dim")

    def request(self, text: str) -> None:
        """What the demo requests."""
        self._line(f"> {text}", style="bold")

    def remark(self, text: str, *, style: str = "yellow") -> None:
        """What the demo does, or what it shows."""
        self._line(text, style=style)

    def event(self, event: Event) -> None:
        """An event of a run, in a form for people; text as it streams."""
        indent = _SUBAGENT if getattr(event, "parent_tool_call_id", None) else " "
        if isinstance(event, TextDelta):
            self._text(event.delta, indent=f"{indent} ")
        elif (line := _line_of(event)) is not None:
            self._line(f"{indent} {line.text}", style=line.style)

    def comparison(self, compared: Sequence[ComparedMessage]) -> None:
        """What was on the wire beside what the receipts charge."""
        table = Table(title="wire = receipts", title_style="bold", expand=False)
        for title in ("message", "model"):
            table.add_column(title)
        for title in ("wire in", "out", "receipt in", "out", "cost USD"):
            table.add_column(title, justify="right")
        table.add_column("basis")
        table.add_column("")
        for each in compared:
            sent, charged = each.sent, each.receipt
            equal = "≈" if each.is_cut else "="
            verdict = Text(equal, "green") if each.is_equal else Text("≠", "red")
            table.add_row(
                *(f"…{sent.message_id[-4:]}", sent.model.removeprefix("claude-")),
                *(str(each.sent_input), "cut off" if each.is_cut else str(each.sent_output)),
                *(str(charged.input_tokens), str(charged.output_tokens)) if charged else ("missing", ""),
                *(f"{charged.cost_usd:f}", charged.basis) if charged else ("", ""),
                verdict,
            )
        self.console.print()
        self.console.print(table)

    def _text(self, delta: str, *, indent: str) -> None:
        """A piece of a streamed text: the console wraps whole texts only."""
        if not self._column:
            delta = indent + delta.lstrip()
        elif self._column + len(delta) > self.console.width:
            self.console.print()
            self._column, delta = 0, indent + delta.lstrip()
        self._column += len(delta)
        self.console.print(delta, end="", markup=False, highlight=False, soft_wrap=True)

    def _line(self, text: str, *, style: str) -> None:
        if self._column:
            self.console.print()
            self._column = 0
        self.console.print(text, style=style, markup=False, highlight=False)


def _line_of(event: Event) -> _Line | None:
    line = None
    match event:
        case RunStarted(attempt=attempt, model=model):
            line = _Line(f"run started: attempt {attempt}, {model}", "dim")
        case ToolCallStart(tool_name=name, args=args):
            line = _Line(f"→ {name} {_json(args)}", "cyan")
        case ToolCallResult(result=result, is_error=is_error):
            line = _Line(f"← {_json(result)}", "red" if is_error else "cyan")
        case PermissionRequest(tool_name=name):
            line = _Line(f"? {name} needs consent", "yellow")
        case PermissionResolved(decision=decision):
            line = _Line(f"! {decision}", "yellow")
        case RunError(error=error):
            line = _Line(f"error: {error}", "red")
        case Done(usage=usage, finish_reason=reason):
            line = _Line(f"done: {reason}, {usage.prompt_tokens} + {usage.completion_tokens} tokens", "dim")
    return line


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
