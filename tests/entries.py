"""Entries of an event log, as tests expect them."""

from app.streams.port import LogEntry


class AnyTime(LogEntry):
    """Equal to an entry with the same position and event, whenever that was produced."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogEntry) and (self.position, self.event) == (other.position, other.event)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = LogEntry.__hash__
