"""`runtally ledger` and `runtally statements`: read the database directly, also while a server uses it."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.commands.database import stored_account
from app.cli.terminal import AsJson, Terminal, minutes, print_rows, print_words

if TYPE_CHECKING:
    from app.http.api.statements.schemas import StatementResponse
    from app.http.response_model import ResponseModel

_output = Terminal(highlight=False)

_TITLES = {
    "created_at": "created",
    "made_at": "made",
    "expires_at": "expires",
    "amount_usd": "USD",
    "balance_after_usd": "balance USD",
    "opening_usd": "opening USD",
    "closing_usd": "closing USD",
}

Account = Annotated[str, typer.Argument(help="An account's name.")]
Limit = Annotated[int, typer.Option(min=1, max=200, help="How many at most.")]


async def ledger(account: Account, *, limit: Limit = 50, as_json: AsJson = False) -> None:
    """Print the latest changes of an account's credit, newest first, with the balance after each."""
    from app.billing.ledger.service import LedgerEntries
    from app.http.api.ledger.schemas import LedgerEntryResponse

    async with stored_account(account) as (database, account_id):
        entries, _ = await LedgerEntries(database).list_entries(account_id, limit=limit, cursor=None)
    found = [LedgerEntryResponse.of(entry) for entry in entries]
    columns = ("created_at", "kind", "amount_usd", "balance_after_usd", "expires_at", "note")
    _show(found, columns, as_json=as_json, title="Ledger")


async def statements(
    account: Account,
    month: Annotated[str | None, typer.Argument(help="`YYYY-MM`; all months if omitted.")] = None,
    *,
    limit: Limit = 50,
    pdf: Annotated[Path | None, typer.Option(help="Write the month's statement to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the statements of an account, newest first, or print that of a month."""
    from app.billing.statements.service import Statements
    from app.http.api.statements.schemas import StatementResponse, StatementSummary

    if pdf is not None and month is None:
        raise typer.BadParameter("needs a month", param_hint="--pdf")

    async with stored_account(account) as (database, account_id):
        if month is None:
            found, _ = await Statements(database).list_statements(account_id, before=None, limit=limit)
        else:
            found = [await Statements(database).get(account_id, month)]
    if pdf is not None:
        from app.billing.statements.pdf import statement_pdf

        pdf.write_bytes(statement_pdf(found[0]))
    elif month is not None and as_json:
        _output.print_json(data=StatementResponse.of(found[0]).model_dump(mode="json", by_alias=True))
    elif month is not None:
        _show_month(StatementResponse.of(found[0]))
    else:
        columns = ("month", "opening_usd", "closing_usd", "made_at")
        _show([StatementSummary.of(each) for each in found], columns, as_json=as_json, title="Statements")


def _show(found: "Sequence[ResponseModel]", columns: Sequence[str], *, as_json: bool, title: str) -> None:
    if as_json:
        _output.print_json(data=[each.model_dump(mode="json", by_alias=True) for each in found])
        return
    rows = [{_TITLES.get(name, name): _text(getattr(each, name)) for name in columns} for each in found]
    print_rows(_output, rows, title=title)


def _show_month(statement: "StatementResponse") -> None:
    from app.billing.credit.ledger import usd

    amounts = [
        *((name, getattr(statement, name)) for name in ("opening", "grants", "adjustments", "expiries")),
        ("charges", statement.charges),
        *((f"late charges of {each.month}", each.credits) for each in statement.late_charges),
        ("closing", statement.closing),
    ]
    rows = [{"entry": name, "USD": _text(usd(credits_))} for name, credits_ in amounts]
    print_rows(_output, rows, title=f"Statement of {statement.month}")
    parts = {"model": statement.by_model, "graph": statement.by_graph, "key": statement.by_key}
    for what, charges in parts.items():
        if charges:
            _output.print()
            print_rows(
                _output,
                [
                    {what: each.name, "messages": str(each.messages), "USD": _text(usd(each.credits))}
                    for each in charges
                ],
            )
    _output.print()
    signed = "Not signed" if statement.key is None else f"Signed by the key {statement.key}"
    print_words(_output, f"{signed}; made {minutes(statement.made_at)}.")


def _text(value: object) -> str:
    if value is None or isinstance(value, datetime):
        return minutes(value)
    return f"{value:.10f}" if isinstance(value, Decimal) else str(value)
