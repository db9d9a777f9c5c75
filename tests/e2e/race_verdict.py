"""What must be true after a race, whatever happened in it."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from app.simulator.server import SentMessage
from app.usage import TokenUsage
from tests.e2e.office import office
from tests.e2e.race_arena import Answered, Arena, Race, Reading, rows
from tests.e2e.race_programs import Act, Run
from tests.e2e.stories import cli_processes
from tests.e2e.the_bill import bill, wire

REST_S = 30.0
"""Everything has come to its end within this time after the last answer."""
PAID_S = 3.0
"""Receipts are in the database by then."""

ALLOWED: dict[str, dict[int, set[str | None]]] = {
    "start": {200: {None}, 202: {None}, 404: {"run_not_found"}, 409: {"session_busy", "run_id_taken"}},
    "cancel": {202: {None}, 404: {"run_not_found"}},
    "interrupt": {202: {None}, 404: {"run_not_found"}},
    "send": {202: {None}, 404: {"run_not_found"}, 409: {"run_ended"}},
    "mode": {200: {None}, 404: {"run_not_found"}, 409: {"run_ended"}, 422: {"invalid_request"}},
    "decide": {
        200: {None},
        404: {"run_not_found", "permission_not_found"},
        409: {"run_ended", "permission_decided"},
        422: {"invalid_request"},
    },
    "leave": {200: {None}, 404: {"run_not_found"}},
    "join": {200: {None}, 404: {"run_not_found"}},
    "forget": {204: {None}, 404: {"session_not_found"}, 409: {"session_busy"}},
}
"""What a request may be answered."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has ended, seen from everywhere."""

    run_id: str
    shown: dict[str, Any]
    """The run, as the API shows it."""
    replay: bytes
    events: list[dict[str, Any]]
    ids: list[int]
    receipts: list[dict[str, Any]]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Its events of a type."""
        return [event for event in self.events if event["type"] == kind]


async def problems_of(race: Race) -> list[str]:
    """Bring a race to rest and say what is wrong."""
    arena = race.arena
    found = [*race.hung, *[problem async for problem in _unrest(arena)], *arena.overlaps]
    if found:
        return found
    await _paid(race)
    runs = [ended for run_id in race.runs if (ended := await _look(race, run_id)) is not None]
    for ended in runs:
        found += [f"{ended.run_id}: {problem}" for problem in _story(ended)]
        found += [f"{ended.run_id}: {problem}" for problem in _deeds(race, ended)]
        found += [f"{ended.run_id}: {problem}" for problem in _messages(race, ended)]
    found += [problem async for problem in _replays(race, runs)]
    found += _answers(race)
    found += [problem async for problem in _conversations(race, {run.run_id: run for run in runs})]
    found += _bill(race, runs)
    found += [problem async for problem in _ledger(arena)]
    return [*found, *arena.unhandled]


async def _unrest(arena: Arena) -> AsyncIterator[str]:
    """What goes on although nothing is asked for any more."""
    try:
        async with asyncio.timeout(REST_S):
            while await rows(arena, "SELECT 1 FROM runs WHERE ended_at IS NULL"):
                await asyncio.sleep(0.05)
    except TimeoutError:
        for row in await rows(arena, "SELECT run_id, status FROM runs WHERE ended_at IS NULL"):
            yield f"{row['run_id']} stays {row['status']}"
    for door in arena.doors:
        carrier = door.services.runs._carrier
        if not await _becomes(carrier.is_idle):
            yield f"runs are still carried: {list(carrier._live)}"
        if not await _becomes(lambda door=door: not door.run_folders()):
            yield f"folders stay: {door.run_folders()}"
        queue = door.services.runs._queue
        if queue._admitted.total() or queue._running.total() or queue._waiting:
            yield f"places stay taken: {queue._admitted} {queue._running} {queue._waiting}"
        if not await _becomes(lambda door=door: not door.services.commands._under_way):
            yield f"commands stay under way: {door.services.commands._under_way}"
    if not await _becomes(lambda: not cli_processes()):
        yield f"processes stay: {cli_processes()}"


async def _becomes(true: Callable[[], bool]) -> bool:
    try:
        async with asyncio.timeout(REST_S):
            while not true():
                await asyncio.sleep(0.02)
    except TimeoutError:
        return False
    return True


async def _look(race: Race, run_id: str) -> Ended | None:
    http = race.arena.doors[0].http
    response = await http.get(f"/v1/runs/{run_id}")
    if response.status_code == 404:
        return None
    stream = (await http.get(f"/v1/runs/{run_id}/events")).raise_for_status()
    reading = Reading(run_id, 0, stream.content)
    ids = [int(each) for each in re.findall(rb"^id: (\d+)$", reading.bytes, re.MULTILINE)]
    receipts = (await http.get(f"/v1/runs/{run_id}/receipts")).raise_for_status().json()["items"]
    return Ended(run_id, response.json(), reading.bytes, reading.events, ids, receipts)


def _story(run: Ended) -> Iterator[str]:
    """One story, told once, in order."""
    kinds = [event["type"] for event in run.events]
    final, status = run.shown["final"], run.shown["status"]
    if run.ids != list(range(1, len(run.events) + 1)):
        yield f"ids {run.ids}"
    if kinds.count("done") != 1 or kinds[-1] != "done":
        yield f"done is not last or not alone: {kinds}"
    if kinds.count("run_started") > 1 or kinds.count("assistant_final") > 1:
        yield f"said twice: {kinds}"
    if kinds.count("error") != (0 if final["ok"] else 1) or ("error" in kinds and kinds[-2] != "error"):
        yield f"error is not where it belongs: {kinds}"
    if (status == "succeeded") != final["ok"] or (status == "cancelled") != (final["error"] == "aborted"):
        yield f"{status}, but {final}"
    if final["finishReason"] == "timeout" or run.events[-1]["finishReason"] != final["finishReason"]:
        yield f"ended as {final}, told as {run.events[-1]}"
    yield from _consent(run)
    yield from _stops(run)


def _consent(run: Ended) -> Iterator[str]:
    asked = [event["requestId"] for event in run.of("permission_request")]
    resolved = [event["requestId"] for event in run.of("permission_resolved")]
    if sorted(asked) != sorted(resolved) or len(set(asked)) < len(asked):
        yield f"asked {asked}, resolved {resolved}"
    known: set[str] = set()
    for event in run.events:
        if event["type"] == "permission_request":
            known.add(event["requestId"])
        elif event["type"] == "permission_resolved" and event["requestId"] not in known:
            yield "resolved before it was asked"


def _stops(run: Ended) -> Iterator[str]:
    """Requested, acknowledged, stopped; a cancel may go beyond an interrupt that is under way."""
    states = [(event["kind"], event["state"]) for event in run.of("interrupted")]
    steps = {
        ("stopped", "requested"),
        ("requested", "acknowledged"),
        ("acknowledged", "stopped"),
    }
    for (kind, state), (next_kind, next_state) in pairwise([("", "stopped"), *states]):
        goes_beyond = (kind, next_kind, next_state) == ("interrupt", "cancel", "requested")
        same = next_state == "requested" or kind == next_kind
        if not (goes_beyond and state != "stopped") and not (same and (state, next_state) in steps):
            yield f"interrupted out of order: {states}"
    if states and states[-1][1] != "stopped":
        yield f"never stopped: {states}"
    shown = run.shown["interruption"]
    if (shown and (shown["kind"], shown["state"])) != (states[-1] if states else None):
        yield f"told {states}, shown {shown}"


def _deeds(race: Race, run: Ended) -> Iterator[str]:
    """Nothing is done that nobody allowed, and nothing twice."""
    calls = {event["toolCallId"]: event["args"] for event in run.of("tool_call_start")}
    allowed: list[tuple[str, str]] = []
    requests = {event["requestId"]: event for event in run.of("permission_request")}
    for event in run.of("permission_resolved"):
        if event["decision"] == "allow":
            args = event.get("args") or requests[event["requestId"]]["args"]
            allowed.append((args["to"], args["text"]))
    done = [mail for mail in office().sent if mail[1].startswith(f"{run.run_id}/")]
    freed = any(
        isinstance(each.act, Act) and (each.act.how, each.run_id) == ("bypassPermissions", run.run_id)
        for each in race.answers
    )
    if len(done) > len(calls) or len(set(done)) < len(done):
        yield f"done more often than called: {done}"
    if not freed and Counter(done) - Counter(allowed):
        yield f"done {done}, allowed {allowed}"
    if any(calls.get(event["toolCallId"]) != event["args"] for event in requests.values()):
        yield "asked about a call nobody was told of"


def _messages(race: Race, run: Ended) -> Iterator[str]:
    """What was sent is taken up once, where its sender was told, and at the latest by a run that ends well."""
    taken = Counter(event["messageId"] for event in run.of("user_message"))
    if any(count > 1 for count in taken.values()):
        yield f"taken up twice: {taken}"
    for each in race.answers:
        if each.run_id == run.run_id and isinstance(each.act, Act) and each.act.what == "send":
            if each.status == 202 and (position := each.body["position"]) is not None:
                event = run.events[position - 1]
                if (event["type"], event.get("messageId")) != ("user_message", each.body["messageId"]):
                    yield f"a message took effect at {position}, where {event} is"
            if each.status == 202 and run.shown["final"]["ok"] and not taken[each.body["messageId"]]:
                yield f"a message was accepted and never heard: {each}"


async def _replays(race: Race, runs: list[Ended]) -> AsyncIterator[str]:
    """Every reader reads the same, now and always, through every door."""
    replays = {run.run_id: run.replay for run in runs}
    for run in runs:
        for door in race.arena.doors:
            again = Reading(run.run_id, 0, (await door.http.get(f"/v1/runs/{run.run_id}/events")).content)
            if again.bytes != run.replay:
                yield f"{run.run_id}: replayed as\n{again.bytes!r}\nand as\n{run.replay!r}"
    for reading in race.readings:
        told = _after(replays.get(reading.run_id, b""), reading.after)
        if reading.whole and reading.bytes != told:
            yield f"{reading.run_id}: told after {reading.after}\n{reading.bytes!r}\nreplayed as\n{told!r}"
        # Whoever left got a beginning; the last frame may have been cut.
        if not told.startswith(reading.bytes.rpartition(b"\n\nid: ")[0]):
            yield f"{reading.run_id}: somebody who left heard something else"


def _after(replay: bytes, position: int) -> bytes:
    frames = [frame + b"\n\n" for frame in replay.split(b"\n\n") if frame]
    return b"".join(frames[position:])


def _answers(race: Race) -> Iterator[str]:
    for each in race.answers:
        what = "start" if isinstance(each.act, Run) or each.act.what == "again" else each.act.what
        if each.code not in ALLOWED[what].get(each.status, set()):
            yield f"{each} is no answer"


async def _conversations(race: Race, runs: dict[str, Ended]) -> AsyncIterator[str]:
    """Runs of a conversation take turns, and each knows what was said before and nothing of later."""
    began = await rows(
        race.arena,
        "SELECT run_id, state_key, turn, started_at, ended_at FROM runs"
        " WHERE state_key LIKE $1 AND started_at IS NOT NULL ORDER BY state_key, started_at",
        f"{race.name}-%",
    )
    forgotten = {
        race.chat_of(race.runs[each.run_id])
        for each in race.answers
        if isinstance(each.act, Act) and each.act.what == "forget" and each.status == 204
    }
    first = {asked.run_id: asked for asked in reversed(race.arena.asked)}
    last = {asked.run_id: asked for asked in race.arena.asked}
    for earlier, later in pairwise(began):
        if earlier["state_key"] != later["state_key"]:
            continue
        before, then = earlier["run_id"], later["run_id"]
        if later["started_at"] < earlier["ended_at"]:
            yield f"{then} has started before {before} has ended"
        if then in first and before in last and last[before].at > first[then].at:
            yield f"{before} asks while {then} goes on"
        if earlier["state_key"] in forgotten:
            continue
        if later["turn"] <= earlier["turn"]:
            yield f"{then} goes on after {before}, out of turn"
        if then in first and before in last:
            for lost in _lost(runs[before], first[then].request.messages):
                yield f"{then} does not know that {before} has said or heard {lost!r}"
    for asked in race.arena.asked:
        chat = race.chat_of(race.runs[asked.run_id])
        if any(chat is None or race.chat_of(race.runs[run_id]) != chat for run_id in set(asked.marks) - {asked.run_id}):
            yield f"{asked.run_id} hears of {asked.marks}"
    leftover = await rows(
        race.arena,
        "SELECT DISTINCT run_id FROM session_entries"
        " WHERE session_id NOT IN (SELECT session_id::text FROM sessions)",
    )
    for row in leftover:
        yield f"what {row['run_id']} said is kept without its conversation"


def _lost(run: Ended, messages: list[dict[str, Any]]) -> Iterator[str]:
    heard = str(messages)
    known = [f"<run {run.run_id}> go"]
    if run.shown["final"]["ok"]:
        known.append(run.shown["final"]["content"])
    yield from (text for text in known if text not in heard)


async def _paid(race: Race) -> None:
    """Wait until as many receipts have come as messages went, or for as long as they may take."""
    due = len(wire(race.arena.simulator.sent))
    try:
        async with asyncio.timeout(PAID_S):
            while len(await rows(race.arena, _RECEIPTS, f"{race.name}-%")) < due:
                await asyncio.sleep(0.05)
    except TimeoutError:
        pass


_RECEIPTS = "SELECT 1 FROM charge_receipts WHERE run_id LIKE $1"


def _bill(race: Race, runs: list[Ended]) -> Iterator[str]:
    """One receipt for each message, by the run that asked for it, with its own numbers."""
    sent = {message.message_id: message for message in race.arena.simulator.sent}
    owed = wire(sent.values())
    paid = bill(receipt for run in runs for receipt in run.receipts)
    shown = {
        event["messageId"] for run in runs for event in run.events if event["type"] == "text_delta"
    }
    for name in set(paid) - set(owed):
        yield f"{name} was charged and never sent"
    for name, (model, basis, usage) in owed.items():
        if name not in paid:
            if not (sent[name].hung_up and name not in shown):
                yield f"{name} was sent and not charged: {sent[name]}"
        elif paid[name] != (model, basis, usage) and not _read_less(paid[name], sent[name]):
            yield f"{name}: charged {paid[name]}, sent {sent[name]}"
    by_run = {
        asked.answer.message_id: asked.run_id
        for asked in race.arena.asked
        if hasattr(asked.answer, "message_id")
    }
    for run in runs:
        for receipt in run.receipts:
            if by_run.get(receipt["usageUnitId"]) != run.run_id:
                yield f"{run.run_id} pays for {receipt['usageUnitId']}, another's"
        billing = run.shown["billing"]
        if billing["meters"] and billing["meters"]["gateway"] != billing["receipts"]:
            yield f"{run.run_id}: {billing}"


def _read_less(paid: tuple[str, str, TokenUsage], sent: SentMessage) -> bool:
    """Whether somebody hung up before everything that was sent could be read."""
    model, basis, usage = paid
    start = sent.start_usage
    most = max(start["output_tokens"], len(sent.sent_output.split()))
    return (
        (sent.hung_up, model, basis) == (True, sent.model, "partial")
        and usage.input_tokens == start["input_tokens"]
        and start["output_tokens"] <= usage.output_tokens <= most
    )


async def _ledger(arena: Arena) -> AsyncIterator[str]:
    """The sums are equal wherever they are kept."""
    (row,) = await rows(
        arena,
        "SELECT (SELECT coalesce(sum(charged_credits), 0) FROM charge_receipts) AS charged,"
        " (SELECT coalesce(-sum(credits), 0) FROM credit_ledger WHERE kind = 'debit') AS debited,"
        " (SELECT coalesce(sum(spent), 0) FROM credit_accounts) AS spent,"
        " (SELECT coalesce(sum(charged_credits), 0) FROM usage_rollups) AS rolled,"
        " (SELECT coalesce(sum(reserved), 0) FROM credit_accounts) AS reserved",
    )
    if len({row["charged"], row["debited"], row["spent"], row["rolled"]}) > 1 or row["reserved"]:
        yield f"the sums differ: {dict(row)}"


