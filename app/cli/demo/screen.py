"""Screen: how the demo shows what happens."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.text import Text

from app.cli.client import EventScreen
from app.cli.demo.comparison import ComparedMessage
from app.cli.terminal import print_rows


@dataclass(slots=True)
class Screen(EventScreen):
    """A console with numbered scenes and the events of runs, one below the other."""

    _scenes: int = field(default=0, init=False)

    def scene(self, title: str, sentence: str) -> None:
        self._scenes += 1
        self.console.print()
        self.console.rule(Text(f"{self._scenes}  {title}", "bold"), align="left", style="cyan")
        self.console.print(sentence, style="dim")

    def request(self, text: str) -> None:
        self.line(f"> {text}", style="bold")

    def remark(self, text: str, *, style: str = "yellow") -> None:
        """What the demo does, or what it shows."""
        self.line(text, style=style)

    def comparison(self, compared: Sequence[ComparedMessage]) -> None:
        """What was on the wire beside what the receipts charge."""
        rows = []
        for each in compared:
            sent, charged = each.sent, each.receipt
            equal = "≈" if each.is_cut else "="
            rows.append(
                {
                    "message": f"…{sent.message_id[-4:]}",
                    "model": sent.model.removeprefix("claude-"),
                    "wire": f"{each.sent_input} + {'?' if each.is_cut else each.sent_output}",
                    " ": equal if each.is_equal else "≠",
                    "receipt": f"{charged.input_tokens} + {charged.output_tokens}" if charged else "missing",
                    "cost USD": f"{charged.cost_usd:f}" if charged else "",
                    "basis": charged.basis if charged else "",
                }
            )
        self.console.print()
        print_rows(self.console, rows, title="wire = receipts, in tokens read + written")
