"""MessageBlocks: the text and reasoning parts of a UI message, one open at a time; pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from app.http.streaming.discarded_text import DiscardedText

Part: TypeAlias = dict[str, Any]

BlockKind: TypeAlias = Literal["text", "reasoning"]

DISCARDED: Final[Part] = {"runtally": {"discarded": True}}
"""Marks a part that does not count: clients keep it with the part."""


@dataclass(slots=True)
class MessageBlocks:
    """Begins, continues and ends parts."""

    _open: tuple[BlockKind, str] | None = None
    _text: list[str] = field(default_factory=list)
    """Of the open text part."""
    _discarded: DiscardedText | None = None

    def add(self, kind: BlockKind, delta: str, *, position: int) -> Iterator[Part]:
        """More text or reasoning; `position` makes the id of a part that begins."""
        if kind == "text" and (discarded := self._discarded) is not None:
            if discarded.add(delta):
                yield from self._repeat(discarded)
                return
            delta, discarded.repeated = discarded.repeated, ""
            yield from self._close_discarded()
        if self._open is None or self._open[0] != kind:
            yield from self._close_open()
            self._open, self._text = (kind, f"{kind}-{position}"), []
            yield {"type": f"{kind}-start", "id": self._open[1]}
        if kind == "text":
            self._text.append(delta)
        yield {"type": f"{kind}-delta", "id": self._open[1], "delta": delta}

    def discard(self) -> Iterator[Part]:
        """What was sent of the current message is discarded."""
        if self._discarded is not None:
            self._discarded.repeated = ""
        if self._open is not None and self._open[0] == "text":
            yield from self._close_discarded()
            self._discarded, self._open = DiscardedText(self._open[1], "".join(self._text)), None
        else:
            yield from ({**end, "providerMetadata": DISCARDED} for end in self._close_open())

    def close(self) -> Iterator[Part]:
        yield from self._close_discarded()
        yield from self._close_open()

    def _repeat(self, discarded: DiscardedText) -> Iterator[Part]:
        """The message so far is in the discarded part, or goes on from there."""
        if not discarded.is_repeated:
            return
        yield from self._close_open()
        self._discarded, self._open, self._text = None, ("text", discarded.part_id), [discarded.repeated]
        if discarded.rest:
            yield {"type": "text-delta", "id": discarded.part_id, "delta": discarded.rest}

    def _close_discarded(self) -> Iterator[Part]:
        """End a discarded part with a mark, and send what was not sent because it had the same text."""
        if (discarded := self._discarded) is None:
            return
        self._discarded = None
        yield {"type": "text-end", "id": discarded.part_id, "providerMetadata": DISCARDED}
        if discarded.repeated:
            again = f"{discarded.part_id}-again"
            yield {"type": "text-start", "id": again}
            yield {"type": "text-delta", "id": again, "delta": discarded.repeated}
            yield {"type": "text-end", "id": again}

    def _close_open(self) -> Iterator[Part]:
        if self._open is not None:
            kind, block_id = self._open
            self._open = None
            yield {"type": f"{kind}-end", "id": block_id}
