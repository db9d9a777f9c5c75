"""What every end-to-end story needs: a served app, a client for it and the model it talks to."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import httpx_sse

from app.bootstrap import Services
from app.simulator.server import Simulator

KEY = "rt_" + "e2e0" * 8
ASSISTANT = "claude_agents:assistant"
PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class World:
    """A running Runtally and the scripted provider behind it."""

    services: Services
    simulator: Simulator
    http: httpx.AsyncClient

    async def post(self, prompt: str, /, **fields: Any) -> list[httpx_sse.ServerSentEvent]:
        """Run a prompt over SSE and return every event."""
        return [event async for event in self.stream(a_request(prompt, **fields))]

    async def stream(self, body: dict[str, Any]) -> AsyncIterator[httpx_sse.ServerSentEvent]:
        """Post a run and yield its events."""
        connection = httpx_sse.aconnect_sse(self.http, "POST", "/v1/runs/stream", json=body)
        async with connection as source:
            source.response.raise_for_status()
            async for event in source.aiter_sse():
                yield event

    async def receipts(self, run_id: str) -> list[dict[str, Any]]:
        """A run's receipts, oldest first."""
        response = await self.http.get(f"/v1/runs/{run_id}/receipts")
        items: list[dict[str, Any]] = response.raise_for_status().json()["items"]
        return items

    async def raw_events(self, run_id: str, **options: Any) -> bytes:
        """The bytes of a run's event stream, without heartbeats and `retry:`."""
        response = await self.http.get(f"/v1/runs/{run_id}/events", **options)
        return events_only(response.raise_for_status().content)
