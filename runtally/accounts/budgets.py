"""Budgets and AsyncBudgets: limits of what an account may spend, and when it requests more credit."""

from decimal import Decimal
from typing import Any, Literal, TypedDict, Unpack

from pydantic import AwareDatetime

from runtally.model import Model
from runtally.protocol.billing import Balance
from runtally.protocol.call import AsyncSend, Call, Page, Send, nothing, one, page, segment


class Budget(Model):
    """A budget, and what is used of it in its current window.

    One without `match` shows in `value` which value has used most.
    """

    id: str
    scope: str
    match: str | None = None
    window: str
    usd: Decimal | None = None
    tokens: int | None = None
    mode: str
    time_zone: str
    by_operator: bool
    value: str | None = None
    spent_usd: Decimal
    spent_tokens: int
    held_usd: Decimal
    held_tokens: int
    remaining_usd: Decimal | None = None
    remaining_tokens: int | None = None
    resets_at: AwareDatetime | None = None


class _Terms(TypedDict):
    scope: Literal["account", "key", "endUser", "tag", "graph"]
    window: Literal["hour", "day", "month", "total"]
    mode: Literal["soft", "hard"]


class BudgetTerms(_Terms, total=False):
    """What a budget limits, by either `usd` or `tokens`."""

    match: str
    usd: Decimal
    tokens: int
    time_zone: str


def _set(budget_id: str, terms: BudgetTerms, account: str | None) -> Call[Budget]:
    body: dict[str, Any] = {
        "timeZone" if name == "time_zone" else name: value for name, value in terms.items()
    }
    if "usd" in terms:
        body["usd"] = f"{terms['usd']:f}"
    return Call(method="PUT", path=_path(budget_id), query=_of(account), body=body, parse=one(Budget))


def _list(account: str | None) -> Call[Page[Budget]]:
    return Call(method="GET", path="/v1/budgets", query=_of(account), parse=page(Budget))


def _get(budget_id: str, account: str | None) -> Call[Budget]:
    return Call(method="GET", path=_path(budget_id), query=_of(account), parse=one(Budget))


def _delete(budget_id: str, account: str | None) -> Call[None]:
    path = _path(budget_id)
    return Call(method="DELETE", path=path, query=_of(account), parse=nothing, repeatable=False)


def _set_top_up(below_usd: Decimal, amount_usd: Decimal, per_day: int, account: str | None) -> Call[Balance]:
    body = {"belowUsd": f"{below_usd:f}", "amountUsd": f"{amount_usd:f}", "perDay": per_day}
    return Call(method="PUT", path=_TOP_UP, query=_of(account), body=body, parse=one(Balance))


def _delete_top_up(account: str | None) -> Call[None]:
    return Call(method="DELETE", path=_TOP_UP, query=_of(account), parse=nothing)


_TOP_UP = "/v1/balance/top-up"


def _path(budget_id: str) -> str:
    return f"/v1/budgets/{segment(budget_id)}"


def _of(account: str | None) -> dict[str, str]:
    return {} if account is None else {"account": account}


class Budgets:
    """Budgets of the key's account; `account` names another one, for keys with `admin`."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def set(self, budget_id: str, *, account: str | None = None, **terms: Unpack[BudgetTerms]) -> Budget:
        """Create or replace a budget; what was spent in its current window counts."""
        return self._send(_set(budget_id, terms, account))

    def list(self, *, account: str | None = None) -> list[Budget]:
        """All budgets by id."""
        return list(self._send(_list(account)).items)

    def get(self, budget_id: str, *, account: str | None = None) -> Budget:
        """One budget."""
        return self._send(_get(budget_id, account))

    def delete(self, budget_id: str, *, account: str | None = None) -> None:
        """Delete a budget."""
        self._send(_delete(budget_id, account))

    def set_top_up(
        self, *, below_usd: Decimal, amount_usd: Decimal, per_day: int = 1, account: str | None = None
    ) -> Balance:
        """Let webhooks know when less than `below_usd` is left of prepaid credit, at most so often a day."""
        return self._send(_set_top_up(below_usd, amount_usd, per_day, account))

    def delete_top_up(self, *, account: str | None = None) -> None:
        """Request no more credit."""
        self._send(_delete_top_up(account))


class AsyncBudgets:
    """The same for asyncio."""

    def __init__(self, send: AsyncSend) -> None:
        self._send = send

    async def set(
        self, budget_id: str, *, account: str | None = None, **terms: Unpack[BudgetTerms]
    ) -> Budget:
        """Create or replace a budget; what was spent in its current window counts."""
        return await self._send(_set(budget_id, terms, account))

    async def list(self, *, account: str | None = None) -> list[Budget]:
        """All budgets by id."""
        return list((await self._send(_list(account))).items)

    async def get(self, budget_id: str, *, account: str | None = None) -> Budget:
        """One budget."""
        return await self._send(_get(budget_id, account))

    async def delete(self, budget_id: str, *, account: str | None = None) -> None:
        """Delete a budget."""
        await self._send(_delete(budget_id, account))

    async def set_top_up(
        self, *, below_usd: Decimal, amount_usd: Decimal, per_day: int = 1, account: str | None = None
    ) -> Balance:
        """Let webhooks know when less than `below_usd` is left of prepaid credit, at most so often a day."""
        return await self._send(_set_top_up(below_usd, amount_usd, per_day, account))

    async def delete_top_up(self, *, account: str | None = None) -> None:
        """Request no more credit."""
        await self._send(_delete_top_up(account))
