"""`runtally reconcile`: compares receipts with the provider's reports, also while a server runs."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from rich.console import Console

from app.billing.reconciliation import records
from app.billing.reconciliation.comparing.price_audit import merged
from app.bootstrap.prices import price_list
from app.bootstrap.reconciliation import open_reconciliation
from app.cli.commands.database import stored
from app.cli.terminal import print_rows, working
from app.errors import Invalid
from app.ids import AccountId
from app.platform.settings import Settings

NO_PROFILE = "none"
_MONTH = re.compile(r"(\d{4})-(\d{2})")
_EXPLAINED_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The results of consecutive windows."""

    window: records.Window
    hours: Sequence[records.ReconciledHour]
    differences: Sequence[records.Difference]
    prices: Sequence[records.PriceDifference]
    accounts: Mapping[AccountId, str]
    """Names of accounts."""

    @property
    def unexplained(self) -> list[records.Difference]:
        """What needs attention."""
        return [each for each in self.differences if not each.is_explained]

    @property
    def ok(self) -> bool:
        """Whether everything is explained and every price is the provider's."""
        return not self.unexplained and not self.prices


async def reconcile(settings: Settings, console: Console, span: "Span", *, as_json: bool) -> bool:
    """Compare and print; returns whether everything is explained."""
    async with (
        stored(settings) as (database, accounts, _),
        open_reconciliation(settings, database, price_list(settings)) as reconciliation,
    ):
        window = span.window(end=reconciliation.latest_end())
        with working("Comparing receipts with reports…"):
            results = [result async for result in reconciliation.compare(window)]
        concerned = {each.account_id for result in results for each in result.differences}
        names = await accounts.find_names({each for each in concerned if each is not None})
    found = _joined(window, results, names)
    if as_json:
        console.print_json(json.dumps(_json(found)))
    else:
        show(found, console)
    return found.ok


async def set_profile(settings: Settings, console: Console, account: str, profile: str) -> None:
    chosen = None if profile == NO_PROFILE else profile
    async with stored(settings) as (_, accounts, by):
        await accounts.set_provider_profile(account, chosen, by=by)
    console.print(f"The provider reports calls of {account} under {chosen or 'no profile'}.")


@dataclass(frozen=True, slots=True)
class Span:
    """The options that choose what is compared."""

    since: str | None = None
    until: str | None = None
    month: str | None = None

    def window(self, *, end: datetime) -> records.Window:
        """The window; nothing after `end`, because the provider's reports of it may be incomplete."""
        if self.month is not None:
            start, last = _month(self.month)
        else:
            start = end - records.DAY if self.since is None else _day("--from", self.since)
            last = end if self.until is None else _day("--to", self.until) + records.DAY
        if start >= min(last, end):
            raise Invalid.field("--from", f"must be before {end.isoformat()}: later hours are not complete")
        return records.Window(start, min(last, end))


def show(found: Reconciled, console: Console) -> None:
    """Print sums by model, and every difference."""
    start, end = (moment.strftime("%Y-%m-%d %H:%M") for moment in found.window)
    print_rows(console, _sums(found), title=f"Reconciled {start} to {end} UTC")
    unexplained = [_difference(each, found.accounts) for each in found.unexplained]
    explained = [_difference(each, found.accounts) for each in found.differences if each.is_explained]
    if unexplained:
        print_rows(console, unexplained, title="Unexplained")
    if explained:
        print_rows(console, explained[:_EXPLAINED_SHOWN], title="Explained")
        if len(explained) > _EXPLAINED_SHOWN:
            console.print(f"and {len(explained) - _EXPLAINED_SHOWN} more; --json prints all.")
    if found.prices:
        prices = [_price(each) for each in merged(found.prices)]
        print_rows(console, prices, title="Prices per million that are not the provider's")
        console.print(
            "Nothing is adjusted yet: correct RUNTALLY_PRICES_FILE, then `runtally reprice --used-since DAY`."
        )
    console.print("Everything is explained." if found.ok else "Unexplained differences need attention.")


def _joined(
    window: records.Window, results: Sequence[records.ReconciledWindow], names: Mapping[AccountId, str]
) -> Reconciled:
    return Reconciled(
        window,
        [hour for result in results for hour in result.hours],
        [difference for result in results for difference in result.differences],
        [price for result in results for price in result.prices],
        names,
    )


def _sums(found: Reconciled) -> list[dict[str, str]]:
    models = sorted({hour.model for hour in found.hours})
    groups = [(model, [hour for hour in found.hours if hour.model == model]) for model in models]
    return [_sum(name, hours) for name, hours in [*groups, ("total", found.hours)]]


def _sum(model: str, hours: Sequence[records.ReconciledHour]) -> dict[str, str]:
    names = ("recorded", "reported", "residual", "explained", "unexplained", "foreign")
    amounts = {name: sum((getattr(hour, f"{name}_usd") for hour in hours), Decimal(0)) for name in names}
    return {
        "model": model,
        "receipts": str(sum(hour.receipts for hour in hours)),
        **{column: _usd(amount) for column, amount in amounts.items()},
    }


def _difference(each: records.Difference, names: Mapping[AccountId, str]) -> dict[str, str]:
    return {
        "from": each.starting_at.strftime("%m-%d %H:%M"),
        "to": each.ending_at.strftime("%m-%d %H:%M"),
        "model": each.dimensions.model,
        "cause": each.cause,
        "reported - recorded": _counts(each),
        "USD": "no price" if each.amount_usd is None else _usd(each.amount_usd),
        "where": _place(each, names),
    }


def _price(each: records.PriceDifference) -> dict[str, str]:
    return {
        "from": each.starting_at.strftime("%m-%d %H:%M"),
        "model": " ".join(value for value in each.dimensions if value not in _USUAL),
        "kind": each.kind,
        "provider": _per_million(each.provider_unit_usd),
        "ours": "none" if each.own_unit_usd is None else _per_million(each.own_unit_usd),
        "price list": each.price_version,
        "tokens": str(each.tokens),
        "proposed USD": _usd(each.amount_usd),
    }


_USUAL = {"not_available", "standard", "0-200k"}


def _counts(each: records.Difference) -> str:
    named = zip(records.KINDS, each.counts, strict=True)
    return ", ".join(f"{kind} {count:+d}" for kind, count in named if count)


def _place(each: records.Difference, names: Mapping[AccountId, str]) -> str:
    equal = each.evidence.get("equal_receipts", ())
    parts = [
        *([f"key {each.api_key_id}"] if each.api_key_id else []),
        *([] if each.account_id is None else [f"account {names[each.account_id]}"]),
        *(receipt["source_reference"] for receipt in equal),
    ]
    return "\n".join(parts)


def _usd(amount: Decimal) -> str:
    return f"{amount:.6f}"


def _per_million(unit: Decimal) -> str:
    return f"{(unit * 1_000_000).normalize():f}"


def _json(found: Reconciled) -> dict[str, object]:
    return {
        "ok": found.ok,
        "from": found.window.start.isoformat(),
        "to": found.window.end.isoformat(),
        "hours": [_plain(hour) for hour in found.hours],
        "differences": [_plain(each) for each in found.differences],
        "prices": [_plain(each) for each in found.prices],
    }


def _plain(record: object) -> dict[str, object]:
    return {name: _value(getattr(record, name)) for name in type(record).__dataclass_fields__}  # type: ignore[attr-defined]


def _value(value: object) -> object:
    if isinstance(value, Decimal):
        return f"{value:f}"
    if value is None or isinstance(value, int | str | list | dict):
        return value
    if hasattr(value, "_asdict"):
        return value._asdict()
    return list(value) if isinstance(value, tuple) else str(value)


def _day(option: str, text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise Invalid.field(option, "must be a day such as 2026-11-22") from None


def _month(text: str) -> tuple[datetime, datetime]:
    if not _MONTH.fullmatch(text):
        raise Invalid.field("--month", "must be a month such as 2026-11")
    start = _day("--month", f"{text}-01")
    return start, records.floor_to((start + timedelta(days=31)).replace(day=1), records.DAY)
