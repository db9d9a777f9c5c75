"""Exposition: the answer to a scrape."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.platform.concurrency.shared_result import SharedResult
from app.platform.metrics.families import NAMESPACE, Family, gauges
from app.platform.metrics.readings import Reading
from app.platform.metrics.registry import MetricsRegistry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

MAX_AGE_S = 0.25
"""Scrapes share an answer for so long: the metrics port is open to everything that can reach it."""

_SUFFIX = ".metrics"
_WAIT_S = 5.0
"""For a process: longer than its own readings take."""

_AVAILABLE = f"{NAMESPACE}_process_available"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The processes of one command, this one among them, whose metrics are in one answer.

    Each answers on a socket in a directory that only their user can open.
    """

    name: str
    """Of this process."""
    directory: Path

    @asynccontextmanager
    async def answered(self, own: Callable[[], Awaitable[bytes]]) -> AsyncIterator[None]:
        """Give this process's own metrics to its neighbours while the body runs."""

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                writer.write(await own())
                await writer.drain()
            finally:
                writer.close()

        path = self.directory / f"{self.name}{_SUFFIX}"
        async with await asyncio.start_unix_server(answer, path):
            yield

    async def text(self) -> bytes:
        """The metrics of every process, each sample with its name; without those that do not answer."""
        paths = sorted(self.directory.glob(f"*{_SUFFIX}"))
        texts = await asyncio.gather(*map(_read, paths))
        return merged({path.stem: text for path, text in zip(paths, texts, strict=True)})


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


async def _read(path: Path) -> str | None:
    try:
        async with asyncio.timeout(_WAIT_S):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                return (await reader.read()).decode() or None
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None


def merged(texts: Mapping[str, str | None]) -> bytes:
    """One text in Prometheus's format, which has each family once, with the label `process`."""
    families: dict[str, list[str]] = {
        f"# HELP {_AVAILABLE} Whether a process of this command has given its metrics.": [
            f"# TYPE {_AVAILABLE} gauge",
            *(f'{_AVAILABLE}{{process="{name}"}} {float(text is not None)}' for name, text in texts.items()),
        ]
    }
    for name, text in texts.items():
        for heading, line in _lines(text or ""):
            family = families.setdefault(heading, [])
            if not line.startswith("#"):
                family.append(_labelled(line, name))
            elif line not in family:
                family.append(line)
    lines = (line for heading, family in families.items() for line in (heading, *family))
    return "".join(f"{line}\n" for line in lines).encode()


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """The lines of a text, each with the first line of its family."""
    heading = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            heading = line
        elif line:
            yield heading, line


def _labelled(sample: str, process: str) -> str:
    name, brace, labels = sample.partition("{")
    if brace:
        return f'{name}{{process="{process}",{labels}'
    name, _, value = sample.partition(" ")
    return f'{name}{{process="{process}"}} {value}'
