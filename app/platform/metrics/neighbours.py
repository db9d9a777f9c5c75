"""Neighbours: the metrics of all processes of one command in one answer, whichever of them is scraped.

Each process answers on a socket in a directory that only their user can open.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from app.platform.metrics.families import PREFIX

_SUFFIX = ".metrics"
_WAIT_S = 5.0
"""For a process: longer than its own readings take."""

_AVAILABLE = f"{PREFIX}process_available"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The processes of this command, this one among them."""

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
