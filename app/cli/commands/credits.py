"""`runtally credits` and `runtally reprice`: work on the database directly, also while a server uses it."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from app.billing.credit.payment_mode import PaymentMode
from app.cli.commands.database import stored
from app.cli.errors import Commands
from app.cli.terminal import AsJson, Terminal, print_rows, working
from app.errors import Invalid
from app.platform.settings import Settings

if TYPE_CHECKING:
    from app.billing.credit.ledger import CreditLedger
    from app.billing.credit.records import CreditBalance
    from app.ids import AccountId
    from app.platform.audit.records import Actor

credit = Commands(help="Credit of accounts: show, grant, adjust, terms.", no_args_is_help=True)
_output = Terminal(highlight=False)

Usd = Annotated[str, typer.Option(help="Dollars, for example 5.00.")]
_MOST_USD = Decimal(10**10)
_MOST_DIGITS = 10


@credit.command("show")
async def show(account: str, *, as_json: AsJson = False) -> None:
    """Print the credit of an account in dollars."""
    await _show(account, lambda ledger, account_id, _: ledger.balance(account_id), as_json=as_json)


@credit.command("grant")
async def grant(
    account: str,
    usd: Usd,
    note: Annotated[str | None, typer.Option(help="The reason; stored with the entry.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Add credit to an account."""
    if (credits_ := _credits(usd)) <= 0:
        raise Invalid.field("--usd", "must be above zero")
    await _show(
        account,
        lambda ledger, account_id, by: ledger.grant(account_id, credits_, note=note, by=by),
        as_json=as_json,
    )


@credit.command("adjust")
async def adjust(
    account: str,
    usd: Usd,
    note: Annotated[str, typer.Option(help="The reason; stored with the entry.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Correct the credit of an account by a positive or negative amount."""
    if (credits_ := _credits(usd)) == 0:
        raise Invalid.field("--usd", "must not be zero")
    await _show(
        account,
        lambda ledger, account_id, by: ledger.adjust(account_id, credits_, note=note, by=by),
        as_json=as_json,
    )


@credit.command("terms")
async def terms(
    account: str,
    mode: Annotated[PaymentMode, typer.Option(help="prepaid stops at zero.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Change how an account pays."""
    await _show(
        account, lambda ledger, account_id, by: ledger.change_mode(account_id, mode, by=by), as_json=as_json
    )


async def reprice(
    used_since: Annotated[
        datetime | None,
        typer.Option(help="Instead: correct all messages since this moment (UTC) whose price has changed."),
    ] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what --used-since would do.")] = False,
    as_json: AsJson = False,
) -> None:
    """Charge messages that had no price when they were recorded and have one now."""
    from app.billing.receipts import repricing
    from app.bootstrap.prices import price_list

    if dry_run and used_since is None:
        raise Invalid.field("--dry-run", "needs --used-since")
    settings = Settings.load()
    prices = price_list(settings)
    with working("Comparing prices…"):
        async with stored(settings) as (database, _, _):
            if used_since is None:
                done = await repricing.reprice(database, prices)
            else:
                since = used_since.replace(tzinfo=used_since.tzinfo or UTC)
                done = await repricing.correct(database, prices, used_since=since, dry_run=dry_run)
    if as_json:
        _output.print_json(
            data={
                "adjusted": done.adjusted,
                "costUsd": f"{done.cost_usd:.10f}",
                "stillUnpriced": [str(part) for part in done.still_unpriced],
            }
        )
        return
    would_be = "would be " if dry_run else ""
    _output.print(f"{done.adjusted} receipts {would_be}adjusted, {done.cost_usd:.10f} USD.")
    for part in done.still_unpriced:
        _output.print(f"Still no price: {part}", style="yellow")


def _credits(dollars: str) -> int:
    from app.billing.prices.price_list import CREDITS_PER_DOLLAR

    try:
        amount = Decimal(dollars)
    except InvalidOperation as error:
        raise Invalid.field("USD", "must be a decimal, for example 5.00") from error
    # As fractions: a Decimal operation would round to 28 digits.
    in_reach = amount.is_finite() and abs(amount) <= _MOST_USD and abs(amount.adjusted()) <= _MOST_DIGITS
    credits_ = Fraction(amount) * CREDITS_PER_DOLLAR if in_reach else None
    if credits_ is None or credits_.denominator != 1:
        raise Invalid.field("USD", "must have at most 7 decimals and be at most ten billion")
    return int(credits_)


async def _show(
    account: str,
    change: "Callable[[CreditLedger, AccountId, Actor], Awaitable[CreditBalance]]",
    *,
    as_json: bool,
) -> None:
    """Print the credit of an account after a change, or without one."""
    from app.billing.credit.ledger import CreditLedger, usd
    from app.http.api.balance.schemas import BalanceResponse

    async with stored() as (database, accounts, by):
        found = await change(CreditLedger(database), (await accounts.find_by_name(account)).id, by)
    if as_json:
        _output.print_json(data=BalanceResponse.of(found).model_dump(mode="json", by_alias=True))
        return
    amounts = {
        "granted": found.granted,
        "adjusted": found.adjusted,
        "spent": found.spent,
        "left": found.balance,
        "reserved": found.reserved,
        "available": found.available,
        "this month": found.spent_this_month(datetime.now(UTC)),
    }
    row = {name: "no limit" if amount is None else f"{usd(amount):.7f}" for name, amount in amounts.items()}
    print_rows(_output, [row], title=f"{account} ({found.mode})")
