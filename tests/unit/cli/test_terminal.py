import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from app.cli.terminal import Terminal, print_entries, print_rows, print_words, sanitized

STEERING = "\x1b]0;title\x07 \x1b]52;c;ZXZpbA==\x07 \x1b[2J \x9b2J \r \x08 \u202e \u2066 \x7f \ud800"


def steers(text: str) -> bool:
    return any(unicodedata.category(letter) in {"Cc", "Cs"} and letter not in "\n\t" for letter in text)


@given(st.text(st.characters(categories=["Cc", "Cs", "Cf", "L"])))
def test_no_text_controls_a_terminal(text: str) -> None:
    kept = sanitized(text)

    assert not steers(kept)
    assert not set(kept) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
    assert len(kept) == len(text)


def test_everything_printed_is_sanitized_and_keeps_its_style() -> None:
    file = io.StringIO()
    terminal = Terminal(file=file, force_terminal=True, color_system="standard", highlight=False, width=200)
    table = Table(title=STEERING)
    table.add_column(STEERING)
    table.add_row(STEERING)

    terminal.print(STEERING, markup=False, soft_wrap=True)
    terminal.out(STEERING)
    terminal.rule(STEERING)
    terminal.print(table)
    terminal.print("red", style="red")

    printed = file.getvalue()
    assert "\x1b[31mred\x1b[0m" in printed
    assert not any(sequence in printed for sequence in ("\x1b]", "\x1b[2J", "\x9b", "\x07", "\u202e"))


@pytest.mark.parametrize("text", ["plain", "tabs\tand\nlines", "é \U0001f600"])
def test_text_without_control_characters_is_unchanged(text: str) -> None:
    assert sanitized(text) == text


def test_markup_of_others_makes_no_link() -> None:
    file = io.StringIO()
    terminal = Terminal(file=file, force_terminal=True, color_system="standard", highlight=False, width=200)
    table = Table()
    table.add_column("model")
    table.add_row("[link=http://evil]x[/link] [/]")

    terminal.print(table)
    terminal.print("[link=http://evil]y[/link] [/]")

    assert file.getvalue().count("[link=http://evil]") == 2
    assert "\x1b]8" not in file.getvalue()


ROWS = [
    {
        "message": f"msg_{'0' * 24}{number}",
        "model": "claude-sonnet-5-5",
        "in": "12",
        "cost": cost,
        "left": left,
    }
    for number, (cost, left) in enumerate(
        [("0.0031500000", "no limit"), ("-12345678901.0000000001", "4.5000000")]
    )
]


@pytest.mark.parametrize("width", [20, 40, 80, 110, 200])
def test_no_number_of_a_table_is_cut_or_broken(width: int) -> None:
    people = {"force_terminal": True, "color_system": None}
    console = Terminal(file=io.StringIO(), width=width, highlight=False, **people)

    print_rows(console, ROWS, title="Receipts")

    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Receipts" in printed
    for row in ROWS:
        for number in (row["cost"], row["left"]):
            assert number in printed
    assert ("cost: 0.0031500000" in printed) == (width < 110)
    assert width < 110 or max(map(len, printed.splitlines())) <= width


def test_what_is_empty_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    console = Terminal(width=80, highlight=False)

    print_rows(console, [], title="Receipts")
    none = capsys.readouterr()
    print_rows(console, [{"id": "1", "ends": ""}, {"id": "2", "ends": ""}])

    assert (none.out, none.err.strip()) == ("", "Receipts: none")
    assert "ends" not in capsys.readouterr().out


@pytest.mark.parametrize("is_terminal", [True, False])
def test_words_are_broken_for_people_only(*, is_terminal: bool) -> None:
    file = io.StringIO()
    console = Terminal(file=file, force_terminal=is_terminal, width=80, highlight=False)
    words = "what is wrong " * 20

    print_rows(console, [{"id": "0" * 36, "account": "acme", "name": words, "place": "x" * 40}])
    print_words(console, words)
    print_entries(console, [("0" * 36, words)])

    lines = file.getvalue().splitlines()
    assert lines.count("0" * 36) == 1
    assert (max(map(len, lines)) <= 80) == is_terminal
    assert (f"  {words}" in lines) != is_terminal
