"""Records of the journal as bytes, and what can be read of damaged ones; pure.

A line is one copy of a record: `crc32 number kind payload`. Every record is written as two lines with an
empty line after each, so that no single damage, not even of a line end, makes both copies unreadable.
Numbers are consecutive: one without a readable copy is lost, and known to be lost.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pydantic import TypeAdapter, ValidationError

from app.usage.records import UsageFact

STARTED, REPLACED, UPDATED, COMPLETED, ACKNOWLEDGED = b"O", b"R", b"P", b"C", b"D"
"""Kinds. A message has started; it has started and replaces what had another key; more of its output has
arrived; it is complete; keys are acknowledged."""

VOID = "void"
"""In an acknowledgement, after the keys: their messages are not charged, and another acknowledgement follows.
No key has this form."""

_FACT = TypeAdapter(UsageFact)


@dataclass(slots=True)
class SegmentDamage:
    """What is wrong with one segment."""

    unreadable_lines: int = 0
    lost: int = 0
    """Records without a readable copy."""
    invalid: list[str] = field(default_factory=list)
    """Records that are intact and no usage facts."""
    torn_bytes: int = 0
    """Bytes at the end of a file that are the beginning of a record."""

    def __bool__(self) -> bool:
        """Whether the file is needed as evidence; a torn end is normal after a crash."""
        return bool(self.unreadable_lines or self.lost or self.invalid)


def encode(number: int, kind: bytes, payload: bytes) -> bytes:
    body = b"%d %s %s" % (number, kind, payload)
    line = b"%08x %s\n\n" % (zlib.crc32(body), body)
    return line + line


def encode_fact(fact: UsageFact) -> bytes:
    return _FACT.dump_json(fact)


def decode_fact(payload: bytes | str) -> UsageFact:
    """What `encode_fact` has encoded; raises `ValidationError`."""
    return _FACT.validate_json(payload)


def if_lost(fact: UsageFact, *, is_complete: bool) -> UsageFact:
    """The fact that is charged for a message if its process is lost."""
    if not is_complete:
        return replace(fact, basis="partial", output_estimated=True)
    return replace(fact, basis="recovered") if fact.basis == "final" else fact


def encode_replacement(fact: UsageFact, *, replaces: str) -> bytes:
    """The payload of a record of a message that replaces another one: both happen, or neither."""
    return replaces.encode() + b" " + encode_fact(fact)


def encode_progress(fact: UsageFact) -> bytes:
    """The payload of a record of its output alone."""
    return f"{fact.key} {fact.usage.output_tokens}".encode()


@dataclass(slots=True)
class JournalReader:
    """The facts of one process that are not acknowledged; reads its segments in order."""

    remaining: dict[str, UsageFact] = field(default_factory=dict)
    """By key."""
    void: set[str] = field(default_factory=set)
    """Keys of messages that are not charged, and not acknowledged for good."""
    _started: set[str] = field(default_factory=set)
    _last: int | None = None

    def read(self, data: bytes) -> SegmentDamage:
        damage = SegmentDamage()
        for kind, payload in self._records(data, damage):
            self._apply(kind, payload, damage)
        return damage

    def _records(self, data: bytes, damage: SegmentDamage) -> Iterator[tuple[bytes, bytes]]:
        *lines, end = data.split(b"\n")
        for line in filter(None, lines):
            if (record := _decoded(line)) is None:
                damage.unreadable_lines += 1
            elif self._is_new(record[0], damage):
                yield record[1:]
        if end and (record := _decoded(end)) is None:
            damage.torn_bytes = len(end)
        elif end and record is not None and self._is_new(record[0], damage):
            yield record[1:]

    def _is_new(self, number: int | None, damage: SegmentDamage) -> bool:
        if number is None:
            # Of a version that wrote no numbers and no second copies.
            return True
        if self._last is not None and number <= self._last:
            return False
        if self._last is not None:
            damage.lost += number - self._last - 1
        self._last = number
        return True

    def _apply(self, kind: bytes, payload: bytes, damage: SegmentDamage) -> None:
        if kind == ACKNOWLEDGED:
            *keys, last = payload.decode().split() or [""]
            for key in (*keys, last):
                self._forget(key)
            self.void = self.void.union(keys) if last == VOID else self.void.difference(keys, [last])
            return
        try:
            if kind == UPDATED:
                self._update(*payload.decode().split())
            elif kind == REPLACED:
                replaced, _, started = payload.partition(b" ")
                self._store(STARTED, decode_fact(started))
                self._forget(replaced.decode())
            else:
                self._store(kind, decode_fact(payload))
        except (ValidationError, ValueError, TypeError):
            damage.invalid.append(payload.decode("utf-8", "replace"))

    def _update(self, key: str, output_tokens: str) -> None:
        if key in self._started:
            fact = self.remaining[key]
            output = max(fact.usage.output_tokens, int(output_tokens))
            self.remaining[key] = replace(fact, usage=replace(fact.usage, output_tokens=output))

    def _forget(self, key: str) -> None:
        self.remaining.pop(key, None)
        self._started.discard(key)

    def _store(self, kind: bytes, fact: UsageFact) -> None:
        if kind == STARTED:
            self._started.add(fact.key)
        else:
            self._started.discard(fact.key)
        self.remaining[fact.key] = if_lost(fact, is_complete=kind != STARTED)


def _decoded(line: bytes) -> tuple[int | None, bytes, bytes] | None:
    """Number, kind and payload of an intact line."""
    checksum, _, body = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        return None
    first, _, rest = body.partition(b" ")
    if not first.isdigit():
        return None, first, rest
    kind, _, payload = rest.partition(b" ")
    return int(first), kind, payload
