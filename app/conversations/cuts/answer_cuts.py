"""Answers that a client has stopped reading: the next turn gets the part that its user has seen; pure.

The Stop of a chat client may only close its connection: the run goes on, and its transcript has more than
any screen. A line before the next turn names what the model does not get. The lines of the answer stay as
they are: other branches and devices may show all of it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Self

from app.conversations.records import TranscriptEntry
from app.ids import RunId, new_uuid

CUT: Final = "answer_cut"
"""The `subtype` of the line."""


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """How much of a run's answer a client shows."""

    run_id: RunId
    chars: int
    """The length of its text, in code points."""
    digest: str
    """The SHA-256 of its text."""
    calls: int
    """How many tool calls it has."""

    @classmethod
    def of(cls, run_id: RunId, text: str, *, calls: int) -> Self:
        return cls(run_id, len(text), _digest(text), calls)

    def lacks_some_of(self, text: str) -> bool:
        """Whether it is the beginning of this text, and more follows. Other texts are not compared."""
        return bool(text[self.chars :].strip()) and _digest(text[: self.chars]) == self.digest


class _Kept(NamedTuple):
    """The last line of an answer that the model gets."""

    line_id: str | None
    """None: none of the answer."""
    blocks: int
    """How many of its blocks."""
    chars: int | None
    """How much of the text of the last one; None: all."""


def text_of(entries: Iterable[TranscriptEntry]) -> str:
    """The text of the answer in these lines of a run."""
    blocks = (block for entry in entries for block in _answer_blocks(entry.line))
    return "".join(_text(block) for block in blocks)


def cut_line(entries: Sequence[TranscriptEntry], shown: ShownAnswer) -> dict[str, Any]:
    """The line that leaves out what follows `shown`; `entries` are the lines of its run."""
    kept = _last_kept(entries, shown)
    calls: set[str] = set()
    left_out: list[str] = []
    is_after = False
    for line in (entry.line for entry in entries):
        line_id = line.get("uuid")
        if is_after or (kept.line_id is None and line.get("type") == "assistant"):
            is_after = True
            if line_id is not None and not _answers_one_of(line, calls):
                left_out.append(line_id)
            continue
        is_last = line_id is not None and line_id == kept.line_id
        is_after = is_last
        blocks = _answer_blocks(line)[: kept.blocks if is_last else None]
        calls |= {block["id"] for block in blocks if _is_call(block)}
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "type": "system",
        "subtype": CUT,
        "uuid": str(new_uuid()),
        "timestamp": at,
        "runId": shown.run_id,
        **kept._asdict(),
        "left_out": left_out,
    }


class AnswerCuts:
    """What the lines of a transcript leave out of its answers."""

    def __init__(self, lines: Iterable[dict[str, Any]]) -> None:
        """From the lines of `cut_line` among these; of several for one run the last one counts."""
        by_run = {line["runId"]: line for line in lines if line.get("subtype") == CUT}
        self._left_out = {line_id for cut in by_run.values() for line_id in cut["left_out"]}
        self._kept = {
            cut["line_id"]: _Kept(cut["line_id"], cut["blocks"], cut["chars"])
            for cut in by_run.values()
            if cut["line_id"] is not None
        }

    def applied_to(self, entries: Sequence[TranscriptEntry]) -> list[TranscriptEntry]:
        """The entries, with an empty line in the place of each that is left out."""
        return [replace(entry, line=self._shown(entry.line)) for entry in entries]

    def _shown(self, line: dict[str, Any]) -> dict[str, Any]:
        line_id = line.get("uuid")
        if line.get("subtype") == CUT or line_id in self._left_out:
            return {}
        if (kept := self._kept.get(line_id)) is None:
            return line
        *before, last = _answer_blocks(line)[: kept.blocks]
        if kept.chars is not None:
            last = {**last, "text": last["text"][: kept.chars]}
        return {**line, "message": {**line["message"], "content": [*before, last]}}


def without_cut(entries: Sequence[TranscriptEntry]) -> Sequence[TranscriptEntry]:
    """A whole transcript without what its lines leave out."""
    if not any(entry.line.get("subtype") == CUT for entry in entries):
        return entries
    cuts = AnswerCuts(entry.line for entry in entries)
    return [entry for entry in cuts.applied_to(entries) if entry.line]


def _last_kept(entries: Iterable[TranscriptEntry], shown: ShownAnswer) -> _Kept:
    kept, chars, calls = _Kept(None, 0, None), shown.chars, shown.calls
    for line_id, number, block in _numbered_blocks(entries):
        text = _text(block)
        if text and not chars:
            break
        if text:
            taken = min(chars, len(text))
            chars -= taken
            kept = _Kept(line_id, number, None if taken == len(text) else taken)
        elif _is_call(block):
            if not (chars or calls):
                break
            calls = max(0, calls - 1)
            kept = _Kept(line_id, number, None)
    return kept


def _numbered_blocks(entries: Iterable[TranscriptEntry]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for line in (entry.line for entry in entries):
        if (line_id := line.get("uuid")) is not None:
            for number, block in enumerate(_answer_blocks(line), 1):
                yield line_id, number, block


def _answer_blocks(line: dict[str, Any]) -> list[dict[str, Any]]:
    match line:
        case {"isSidechain": True} | {"message": {"model": "<synthetic>"}}:
            return []
        case {"type": "assistant", "message": {"content": list(content)}}:
            return [block for block in content if isinstance(block, dict)]
        case _:
            return []


def _answers_one_of(line: dict[str, Any], calls: set[str]) -> bool:
    match line:
        case {"type": "user", "message": {"content": list(content)}}:
            return any(isinstance(block, dict) and block.get("tool_use_id") in calls for block in content)
        case _:
            return False


def _text(block: dict[str, Any]) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case _:
            return ""


def _is_call(block: dict[str, Any]) -> bool:
    return block.get("type") == "tool_use" and isinstance(block.get("id"), str)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
