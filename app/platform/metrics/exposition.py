"""Exposition: the answer to a scrape."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from app.platform.concurrency.shared_result import SharedResult
from app.platform.metrics.families import Family, gauges
from app.platform.metrics.neighbours import Neighbours
from app.platform.metrics.readings import Reading
from app.platform.metrics.registry import MetricsRegistry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

MAX_AGE_S = 0.25
"""Scrapes share an answer for so long: the metrics port is open to everything that can reach it."""


class Exposition:
    """Refreshes what is read from the database, then renders everything."""

    def __init__(
        self,
        registry: MetricsRegistry,
        parts: Sequence[Reading[Any]] = (),
        *,
        neighbours: Neighbours | None = None,
    ) -> None:
        """`neighbours`: the processes whose metrics are shown together."""
        self._registry = registry
        self._parts = parts
        self._own = SharedResult(self._render, max_age_s=MAX_AGE_S)
        self._all = self._own if neighbours is None else SharedResult(neighbours.text, max_age_s=MAX_AGE_S)
        registry.add(self._families)

    async def text(self) -> bytes:
        """All metrics in Prometheus's text format, `CONTENT_TYPE`."""
        return await self._all.get()

    async def own_text(self) -> bytes:
        """Those of this process alone."""
        return await self._own.get()

    async def aclose(self) -> None:
        """End what is being read."""
        await asyncio.gather(*(part.aclose() for part in self._parts))

    async def _render(self) -> bytes:
        await asyncio.gather(*(part.refresh() for part in self._parts))
        return self._registry.render()

    def _families(self) -> Iterator[Family]:
        yield gauges(
            "metrics_available",
            "Whether a part of these metrics could be read.",
            labels=["part"],
            samples=[([part.name], part.is_available) for part in self._parts],
        )
        for part in self._parts:
            yield from part.families()
