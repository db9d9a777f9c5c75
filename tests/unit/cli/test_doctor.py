from io import StringIO

from rich.console import Console

from app.cli.doctor import show
from app.doctor.report import Check, Report


def test_names_and_details_are_columns() -> None:
    printed = StringIO()
    checks = [Check("cli", "ok", "is there"), Check("mcp_servers", "error", "graph g: does not respond")]

    show(Report(checks), Console(file=printed, width=80), as_json=False)

    first, second, *_ = printed.getvalue().splitlines()
    assert second.split() == ["error", "mcp_servers", "graph", "g:", "does", "not", "respond"]
    assert first.index("is there") == second.index("graph g")
