"""Calls of clients' own agents, for the tests of their door."""

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import httpx
from anthropic import AsyncAnthropic

from app.billing.prices.price_list import CREDITS_PER_DOLLAR
from tests.e2e.stories import KEY, World
from tests.patience import PATIENCE_S

MODEL = "claude-sonnet-5-5"
MESSAGES = "/anthropic/v1/messages"
SESSION = "x-claude-code-session-id"
HELLO: dict[str, Any] = {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
EXTERNAL = ("external:write", "runs:read", "receipts:read")


def official(world: World, key: str = KEY, **options: Any) -> AsyncAnthropic:
    """The official client; only base URL and key are ours."""
    return AsyncAnthropic(base_url=f"{world.url}/anthropic", api_key=key, max_retries=0, **options)


async def new_key(world: World, account: str, scopes: Sequence[str] = EXTERNAL, **options: Any) -> str:
    return (await world.services.accounts.create_key(account, scopes, **options))[1]


async def call(http: httpx.AsyncClient, session: str = "s-1", **fields: Any) -> httpx.Response:
    return await http.post(MESSAGES, json={**HELLO, **fields}, headers={SESSION: session})


async def sessions(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    """The runs of the key's account, the oldest first."""
    items: list[dict[str, Any]] = (await http.get("/v1/runs")).raise_for_status().json()["items"]
    return items[::-1]


async def billed(world: World, run_id: str, messages: int) -> list[dict[str, Any]]:
    """A run's receipts, once there are so many."""
    async with asyncio.timeout(PATIENCE_S):
        while len(receipts := await world.receipts(run_id)) < messages:
            await asyncio.sleep(0.02)
    return receipts


def error_of(response: httpx.Response) -> tuple[int, str, str]:
    error = response.json()
    assert error["type"] == "error"
    return response.status_code, error["error"]["type"], error["error"]["message"]


async def prepay(world: World, usd: str) -> None:
    (await world.http.patch("/v1/accounts/default", json={"mode": "prepaid"})).raise_for_status()
    grant = await world.http.post("/v1/accounts/default/grants", json={"usd": usd})
    grant.raise_for_status()


async def all_receipts(world: World) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await world.http.get("/v1/receipts?limit=200")).json()["items"]
    return items


async def settled(world: World, *, sessions: int) -> None:
    """Wait until nothing is reserved for calls: each session that is not used keeps one credit."""
    async with asyncio.timeout(PATIENCE_S):
        while await _reserved(world) > sessions:
            await asyncio.sleep(0.05)


async def _reserved(world: World) -> Decimal:
    """The credits that are reserved, or held of the account's budget."""
    balance = (await world.http.get("/v1/balance")).json()
    budgets = (await world.http.get("/v1/budgets")).json()["items"]
    held = [Decimal(budget["heldUsd"]) * CREDITS_PER_DOLLAR for budget in budgets]
    return max(held, default=Decimal(balance["reserved"]))


async def limit(world: World, usd: str) -> None:
    """Give the account a budget of a month."""
    budget = {"scope": "account", "window": "month", "mode": "hard", "usd": usd}
    (await world.http.put("/v1/budgets/house", json=budget)).raise_for_status()
