"""Every log event is documented in docs/operations/log-events.md."""

import ast
import re
from collections.abc import Iterator

from tests.architecture.tree import ROOT, sources, walked

LEVELS = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "error": "error",
    "exception": "error",
    "critical": "critical",
}
EVENT = re.compile(r"[a-z_]+(\.[a-z_]+)+")
FAMILY = re.compile(r"^\*\*.+?\*\* \(`(\w+)`, with (.+?)\)(.+?)^$", re.MULTILINE | re.DOTALL)
MEMBER = re.compile(r"`([a-z_]+\.[a-z_]+)`(?: \(([^)]+)\))?")
ROW = re.compile(r"\| `([a-z_]+\.[a-z_]+)` \| (\w+) \| [^|]+ \| ([^|]+) \|")


def logged() -> Iterator[tuple[str, str, set[str]]]:
    """Event, level and fields of each call of a logger."""
    for path in sources("app"):
        for node in walked(path):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="log"), attr=method),
                    args=[ast.Constant(value=str(event))],
                ) if method in LEVELS and EVENT.fullmatch(event):
                    fields = {keyword.arg for keyword in node.keywords if keyword.arg is not None}
                    yield event, LEVELS[method], fields - {"exc_info"}


TEXT = (ROOT / "docs" / "operations" / "log-events.md").read_text(encoding="utf-8")
ROWS = ROW.findall(TEXT)


def documented() -> dict[str, tuple[str, str]]:
    """Level and fields of each event in the families and in the table."""
    families = {
        event: (level, f"{common} {own}")
        for level, common, members in FAMILY.findall(TEXT)
        for event, own in MEMBER.findall(members)
    }
    return families | {event: (level, fields) for event, level, fields in ROWS}


def test_the_page_has_every_event_once_with_its_level_and_fields() -> None:
    table, found = documented(), list(logged())

    assert len(found) > 50
    wrong = [
        (event, level, sorted(fields))
        for event, level, fields in found
        if event not in table
        or table[event][0] != level
        or not all(f"`{name}`" in table[event][1] for name in fields)
    ]
    assert wrong == []


def test_the_table_is_sorted_and_has_no_event_that_does_not_exist() -> None:
    nodes = (node for path in sources("app") for node in walked(path))
    code = {node.value for node in nodes if isinstance(node, ast.Constant)}
    events = documented()
    rows = [event for event, _, _ in ROWS]

    assert rows == sorted(rows)
    # The end of an event may be chosen at run time.
    assert {event for event in events if event not in code and "memory.ceiling_" not in event} == set()
