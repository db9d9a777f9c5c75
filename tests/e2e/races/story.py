"""What a run's own events must say, whatever was asked of it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.e2e.races.programs import Act
from tests.e2e.races.race import Race


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
    is_deleted: bool
    """What it said was deleted with its conversation; what it cost stays."""

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Its events of a type."""
        return [event for event in self.events if event["type"] == kind]


def faults_of(race: Race, run: Ended) -> Iterator[str]:
    """What is wrong with a run that has ended."""
    if run.is_deleted:
        if race.chat_of(race.runs[run.run_id]) not in race.forgotten():
            yield "deleted, but not its conversation"
        return
    for check in (_told, _consent, _stops):
        yield from check(run)
    yield from _deeds(race, run)
    yield from _messages(race, run)


def _told(run: Ended) -> Iterator[str]:
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
    # A cancellation is stored first: a run that ends in this moment does not hear of it.
    came_too_late = shown and shown["state"] == "requested" and run.shown["status"] != "cancelled"
    if (shown and (shown["kind"], shown["state"])) != (states[-1] if states else None) and not came_too_late:
        yield f"told {states}, shown {shown}, {run.shown['status']}"


def _deeds(race: Race, run: Ended) -> Iterator[str]:
    """Nothing is done that nobody allowed, and nothing twice."""
    calls = {event["toolCallId"]: event["args"] for event in run.of("tool_call_start")}
    allowed: list[tuple[str, str]] = []
    requests = {event["requestId"]: event for event in run.of("permission_request")}
    for event in run.of("permission_resolved"):
        if event["decision"] == "allow":
            args = event.get("args") or requests[event["requestId"]]["args"]
            allowed.append((args["to"], args["text"]))
    done = [mail for mail in race.arena.sent if mail[1].startswith(f"{run.run_id}/")]
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
    """What was sent is taken up once, where its sender was told, and lost by no run that ends well."""
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
