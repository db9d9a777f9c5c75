"""`runtally credits` and `runtally reprice`: work on the database, also while a server uses it."""

from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Literal

from rich.console import Console

from app.billing.credit.ledger import CreditLedger, usd
from app.billing.credit.payment_mode import PaymentMode
from app.billing.credit.records import CreditBalance
from app.billing.prices.price_list import CREDITS_PER_DOLLAR
from app.billing.receipts.repricing import correct, reprice
from app.bootstrap.prices import price_list
from app.bootstrap.storage import attach_database
from app.cli.commands.database import stored_account
from app.cli.terminal import print_rows, working
from app.errors import Invalid
from app.http.api.balance.schemas import BalanceResponse
from app.platform.audit.service import command_actor
from app.platform.settings import Settings

_MOST_USD = Decimal(10**10)
_MOST_DIGITS = 10


async def show_credit(settings: Settings, console: Console, account: str, *, as_json: bool = False) -> None:
    async with stored_account(account, settings) as (database, account_id):
        credit = await CreditLedger(database).balance(account_id)
    _show(console, account, credit, as_json=as_json)


async def change_credit(
    settings: Settings,
    console: Console,
    account: str,
    *,
    kind: Literal["grant", "adjust"],
    dollars: str,
    note: str | None,
    as_json: bool = False,
) -> None:
    credits_ = _credits(dollars)
    if credits_ == 0 or (kind == "grant" and credits_ < 0):
        raise Invalid.field("--usd", "must be above zero" if kind == "grant" else "must not be zero")
    async with stored_account(account, settings) as (database, account_id):
        ledger = CreditLedger(database)
        change = ledger.grant if kind == "grant" else ledger.adjust
        credit = await change(account_id, credits_, note=note, by=command_actor())
    _show(console, account, credit, as_json=as_json)


async def change_mode(
    settings: Settings, console: Console, account: str, *, mode: PaymentMode, as_json: bool = False
) -> None:
    async with stored_account(account, settings) as (database, account_id):
        credit = await CreditLedger(database).change_mode(account_id, mode, by=command_actor())
    _show(console, account, credit, as_json=as_json)


async def reprice_receipts(
    settings: Settings,
    console: Console,
    *,
    used_since: datetime | None = None,
    dry_run: bool = False,
    as_json: bool = False,
) -> None:
    """Complete receipts of which a part had no price; or correct all since a moment."""
    if dry_run and used_since is None:
        raise Invalid.field("--dry-run", "needs --used-since")
    prices = price_list(settings)
    with working("Comparing prices…"):
        async with attach_database(settings) as database:
            if used_since is None:
                done = await reprice(database, prices)
            else:
                since = used_since.replace(tzinfo=used_since.tzinfo or UTC)
                done = await correct(database, prices, used_since=since, dry_run=dry_run)
    if as_json:
        console.print_json(
            data={
                "adjusted": done.adjusted,
                "costUsd": f"{done.cost_usd:.10f}",
                "stillUnpriced": [str(part) for part in done.still_unpriced],
            }
        )
        return
    would_be = "would be " if dry_run else ""
    console.print(f"{done.adjusted} receipts {would_be}adjusted, {done.cost_usd:.10f} USD.")
    for part in done.still_unpriced:
        console.print(f"Still no price: {part}", style="yellow")


def _credits(dollars: str) -> int:
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


def _show(console: Console, account: str, credit: CreditBalance, *, as_json: bool) -> None:
    if as_json:
        console.print_json(data=BalanceResponse.of(credit).model_dump(mode="json", by_alias=True))
        return
    amounts = {
        "granted": credit.granted,
        "adjusted": credit.adjusted,
        "spent": credit.spent,
        "left": credit.balance,
        "reserved": credit.reserved,
        "available": credit.available,
        "this month": credit.spent_this_month(datetime.now(UTC)),
    }
    row = {title: "no limit" if amount is None else _dollars(amount) for title, amount in amounts.items()}
    print_rows(console, [row], title=f"{account} ({credit.mode})")


def _dollars(credits_: int) -> str:
    return f"{usd(credits_):.7f}"
