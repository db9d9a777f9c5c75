"""What must be true after a race, whatever happened in it."""

import re
from collections.abc import AsyncIterator, Iterator

from tests.e2e.races.money import differences, paid, sums
from tests.e2e.races.programs import Run
from tests.e2e.races.race import Race, Reading
from tests.e2e.races.rest import unrest
from tests.e2e.races.story import Ended, faults_of
from tests.e2e.races.turns import confusion

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
    "join": {200: {None}, 204: {None}, 404: {"run_not_found"}, 410: {"run_deleted"}},
    "forget": {204: {None}, 404: {"session_not_found"}, 409: {"session_busy"}},
}
"""What a request may be answered."""


async def problems_of(race: Race) -> list[str]:
    """Bring a race to rest and say what is wrong."""
    arena = race.arena
    found = [*race.hung, *[problem async for problem in unrest(arena)], *arena.overlaps]
    if found:
        return found
    await paid(race)
    runs = [ended for run_id in race.runs if (ended := await _look(race, run_id)) is not None]
    found += [f"{ended.run_id}: {problem}" for ended in runs for problem in faults_of(race, ended)]
    found += [problem async for problem in _replays(race, runs)]
    found += _answers(race)
    found += [problem async for problem in confusion(race, {run.run_id: run for run in runs})]
    found += differences(race, runs)
    found += [problem async for problem in sums(arena)]
    return [*found, *arena.unhandled]


async def _look(race: Race, run_id: str) -> Ended | None:
    http = race.arena.doors[0].http
    response = await http.get(f"/v1/runs/{run_id}")
    if response.status_code == 404:
        return None
    stream = await http.get(f"/v1/runs/{run_id}/events")
    if is_deleted := stream.status_code == 410:
        reading = Reading(run_id, 0, b"")
    else:
        reading = Reading(run_id, 0, stream.raise_for_status().content)
    ids = [int(each) for each in re.findall(rb"^id: (\d+)$", reading.told, re.MULTILINE)]
    receipts = (await http.get(f"/v1/runs/{run_id}/receipts")).raise_for_status().json()["items"]
    return Ended(run_id, response.json(), reading.told, reading.events, ids, receipts, is_deleted)


async def _replays(race: Race, runs: list[Ended]) -> AsyncIterator[str]:
    """Every reader reads the same, now and always, through every door."""
    deleted = {run.run_id for run in runs if run.is_deleted}
    replays = {run.run_id: run.replay for run in runs}
    for run in runs:
        for door in race.arena.doors:
            response = await door.http.get(f"/v1/runs/{run.run_id}/events")
            again = Reading(run.run_id, 0, b"" if response.status_code == 410 else response.content)
            if again.told != run.replay:
                yield f"{run.run_id}: replayed as\n{again.told!r}\nand as\n{run.replay!r}"
    for reading in race.readings:
        if reading.run_id in deleted:
            continue
        told = _after(replays.get(reading.run_id, b""), reading.after)
        if reading.whole and reading.told != told:
            yield f"{reading.run_id}: told after {reading.after}\n{reading.told!r}\nreplayed as\n{told!r}"
        # A client that has left got a beginning; the last frame may have been cut.
        if not told.startswith(reading.told.rpartition(b"\n\nid: ")[0]):
            yield f"{reading.run_id}: a client that left heard something else"


def _after(replay: bytes, position: int) -> bytes:
    frames = [frame + b"\n\n" for frame in replay.split(b"\n\n") if frame]
    return b"".join(frames[position:])


def _answers(race: Race) -> Iterator[str]:
    for each in race.answers:
        what = "start" if isinstance(each.act, Run) or each.act.what == "again" else each.act.what
        if each.code not in ALLOWED[what].get(each.status, set()):
            yield f"{each} is no answer"
