"""MessageBlocks: the text and reasoning parts of a UI message, one open at a time; pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from app.http.ai_sdk.void_text import VoidText

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
    _void: VoidText | None = None

    def add(self, kind: BlockKind, delta: str, *, position: int) -> Iterator[Part]:
        """More text or reasoning; `position` makes the id of a part that begins."""
        if kind == "text" and (void := self._void) is not None:
            if void.add(delta):
                yield from self._repeat(void)
                return
            delta, void.repeated = void.repeated, ""
            yield from self._close_void()
        if self._open is None or self._open[0] != kind:
            yield from self._close_open()
            self._open, self._text = (kind, f"{kind}-{position}"), []
            yield {"type": f"{kind}-start", "id": self._open[1]}
        if kind == "text":
            self._text.append(delta)
        yield {"type": f"{kind}-delta", "id": self._open[1], "delta": delta}

    def discard(self) -> Iterator[Part]:
        """What was sent of the current message is void."""
        if self._void is not None:
            self._void.repeated = ""
        if self._open is not None and self._open[0] == "text":
            yield from self._close_void()
            self._void, self._open = VoidText(self._open[1], "".join(self._text)), None
        else:
            yield from ({**end, "providerMetadata": DISCARDED} for end in self._close_open())

    def close(self) -> Iterator[Part]:
        """End what is open."""
        yield from self._close_void()
        yield from self._close_open()

    def _repeat(self, void: VoidText) -> Iterator[Part]:
        """The message so far is in the void part, or goes on from there."""
        if not void.is_repeated:
            return
        yield from self._close_open()
        self._void, self._open, self._text = None, ("text", void.part_id), [void.repeated]
        if void.rest:
            yield {"type": "text-delta", "id": void.part_id, "delta": void.rest}

    def _close_void(self) -> Iterator[Part]:
        """End a void part with a mark, and send what was not sent because it had the same text."""
        if (void := self._void) is None:
            return
        self._void = None
        yield {"type": "text-end", "id": void.part_id, "providerMetadata": DISCARDED}
        if void.repeated:
            again = f"{void.part_id}-again"
            yield {"type": "text-start", "id": again}
            yield {"type": "text-delta", "id": again, "delta": void.repeated}
            yield {"type": "text-end", "id": again}

    def _close_open(self) -> Iterator[Part]:
        if self._open is not None:
            kind, block_id = self._open
            self._open = None
            yield {"type": f"{kind}-end", "id": block_id}
