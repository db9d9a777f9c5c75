"""`runtally run` and `runtally receipts`: a terminal client of a running server."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import httpx_sse
from rich.console import Console
from rich.table import Table

from app.errors import AppError, Unavailable

_CONNECT_S = 5.0
_RECEIPT_COLUMNS = {
    "usageUnitId": "message",
    "model": "model",
    "inputTokens": "in",
    "outputTokens": "out",
    "cacheReadTokens": "cache read",
    "costUsd": "cost USD",
    "chargedCredits": "credits",
    "basis": "basis",
}


class ServerUnreachable(Unavailable):
    """No server answers at this URL; set RUNTALLY_URL or start one with `runtally serve`."""


class RequestRefused(AppError):
    """The server refused the request."""


class RunFailed(AppError):
    """The run ended without an answer."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client of one server with one API key."""

    url: str
    api_key: str

    async def stream(self, graph_id: str, prompt: str) -> AsyncIterator[dict[str, Any]]:
        """Start a run and yield its events as they arrive."""
        body = {"graphId": graph_id, "messages": [{"role": "user", "content": prompt}]}
        async with self._http() as http:
            try:
                connection = httpx_sse.aconnect_sse(http, "POST", "/v1/runs/stream", json=body)
                async with connection as source:
                    await _require_success(source.response)
                    async for event in source.aiter_sse():
                        # Heartbeats and `retry:` carry no data.
                        if event.data:
                            yield json.loads(event.data)
            except httpx.TransportError as error:
                raise ServerUnreachable from error

    async def receipts(self, run_id: str | None) -> list[dict[str, Any]]:
        """A run's receipts, oldest first; without a run the account's latest, newest first."""
        path = "/v1/receipts" if run_id is None else f"/v1/runs/{run_id}/receipts"
        async with self._http() as http:
            try:
                response = await http.get(path)
            except httpx.TransportError as error:
                raise ServerUnreachable from error
            await _require_success(response)
            items: list[dict[str, Any]] = response.json()["items"]
            return items

    def _http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.api_key}"},
            timeout=httpx.Timeout(_CONNECT_S, read=None),
        )


async def show_run(client: Client, console: Console, graph_id: str, prompt: str) -> str:
    """Start a run and print its events as they arrive; returns the run's id.

    Raises `RunFailed` for a run that ended without an answer.
    """
    run_id, error = "", None
    async for event in client.stream(graph_id, prompt):
        run_id, error = event.get("runId", run_id), event.get("error", error)
        for text in _lines(event):
            console.print(text, end="", markup=False, highlight=False, soft_wrap=True)
    console.print()
    if error is not None:
        message = f"The run failed: {error}."
        raise RunFailed(message)
    return run_id


def receipts_table(receipts: list[dict[str, Any]]) -> Table:
    """The receipts as a table."""
    table = Table(title="Receipts")
    for title in _RECEIPT_COLUMNS.values():
        table.add_column(title, overflow="fold")
    for receipt in receipts:
        table.add_row(*(str(receipt[name]) for name in _RECEIPT_COLUMNS))
    return table


async def _require_success(response: httpx.Response) -> None:
    if response.is_success:
        return
    await response.aread()
    try:
        detail = response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = f"The server responded with status {response.status_code}."
    raise RequestRefused(detail)


def _lines(event: dict[str, Any]) -> Iterator[str]:
    """Format an event for the terminal: text as it streams, anything else on its own line."""
    match event:
        case {"type": "text_delta" | "thinking_delta", "delta": delta}:
            yield delta
        case {"type": kind, **fields}:
            shown = json.dumps(fields, ensure_ascii=False)
            yield f"\n[{kind}] {shown}\n"
