"""Budgets and AsyncBudgets: limits of what an account, its keys, end users, tags and graphs may spend."""

from decimal import Decimal
from typing import Any, Literal, TypedDict, Unpack

from pydantic import AwareDatetime

from runtally.model import Model
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
