"""What a response leaves out because the run has discarded it before; pure."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from types import MappingProxyType
from typing import Final

from app.events import Citation, MessageDiscarded, TextDelta, ThinkingDelta
from app.streams.port import LogEntry

_NONE: Final[Mapping[str, int]] = MappingProxyType({})


def discarded_in(entries: Sequence[LogEntry]) -> dict[str, int]:
    """The ids of the messages that these entries discard, and where they do."""
    return {
        entry.event.message_id: entry.position
        for entry in entries
        if isinstance(entry.event, MessageDiscarded)
    }


async def without_discarded(
    batches: AsyncGenerator[Sequence[LogEntry], None], *, known: Mapping[str, int] = _NONE
) -> AsyncGenerator[Sequence[LogEntry], None]:
    """The entries of a run, without texts and thinking that it discards in the same batch, or as is `known`.

    What a client has received before that is discarded in its message.
    """
    async with aclosing(batches):
        async for batch in batches:
            discarded = {**known, **discarded_in(batch)}
            yield not_discarded(batch, discarded) if discarded else batch


def not_discarded(entries: Sequence[LogEntry], discarded: Mapping[str, int]) -> list[LogEntry]:
    """These entries without what belongs to the messages that `discarded` names."""
    return [entry for entry in entries if not _is_discarded(entry, discarded)]


def _is_discarded(entry: LogEntry, discarded: Mapping[str, int]) -> bool:
    event = entry.event
    of_message = event.message_id if isinstance(event, TextDelta | ThinkingDelta | Citation) else ""
    return entry.position < discarded.get(of_message, 0)
