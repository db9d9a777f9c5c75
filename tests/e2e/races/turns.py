"""Runs of a conversation take turns, and each knows what was said before it."""

from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import pairwise
from typing import Any

from app.simulator.script import ApiRequest
from tests.e2e.races.arena import rows
from tests.e2e.races.race import Race
from tests.e2e.races.story import Ended


async def confusion(race: Race, runs: Mapping[str, Ended]) -> AsyncIterator[str]:
    """Turns that met, and words that were lost or found their way elsewhere."""
    began = await rows(
        race.arena,
        "SELECT run_id, state_key, turn, started_at, ended_at FROM runs"
        " WHERE state_key LIKE $1 AND started_at IS NOT NULL ORDER BY state_key, started_at",
        f"{race.name}-%",
    )
    forgotten = race.forgotten()
    for earlier, later in pairwise(began):
        if earlier["state_key"] == later["state_key"]:
            for problem in _meeting(race, earlier, later):
                yield problem
            if earlier["state_key"] not in forgotten:
                for problem in _order(race, runs, earlier, later):
                    yield problem
    for problem in _strays(race):
        yield problem
    leftover = await rows(
        race.arena,
        "SELECT DISTINCT run_id FROM session_entries"
        " WHERE session_id NOT IN (SELECT session_id::text FROM sessions)",
    )
    for row in leftover:
        yield f"what {row['run_id']} said is kept without its conversation"


def _meeting(race: Race, earlier: Any, later: Any) -> Iterator[str]:
    before, then = earlier["run_id"], later["run_id"]
    if later["started_at"] < earlier["ended_at"]:
        yield f"{then} has started {later['started_at']}, {before} has ended {earlier['ended_at']}"
    times = {
        name: [asked.at for asked in race.arena.asked if asked.run_id == name] for name in (before, then)
    }
    if times[before] and times[then] and times[before][-1] > times[then][0]:
        yield f"{before} asks while {then} goes on"


def _order(race: Race, runs: Mapping[str, Ended], earlier: Any, later: Any) -> Iterator[str]:
    before, then = earlier["run_id"], later["run_id"]
    if later["turn"] <= earlier["turn"]:
        yield f"{then} goes on after {before}, out of turn"
    first = {asked.run_id: asked for asked in reversed(race.arena.asked)}
    if before in first and then in first:
        request, final = first[then].request, runs[before].shown["final"]
        if f"<run {before}> go" not in str(request.messages):
            yield f"{then} does not know what {before} was asked"
        if final["ok"] and final["content"] not in _said(request):
            yield f"{then} does not know what {before} said: {final['content']!r}"


def _said(request: ApiRequest) -> str:
    """Everything the model has said in a conversation; an answer may consist of several messages."""
    spoken = [message["content"] for message in request.messages if message["role"] == "assistant"]
    return "".join(
        content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
        for content in spoken
    )


def _strays(race: Race) -> Iterator[str]:
    for asked in race.arena.asked:
        chat = race.chat_of(race.runs[asked.run_id])
        for name in set(asked.marks) - {asked.run_id}:
            if chat is None or race.chat_of(race.runs[name]) != chat:
                yield f"{asked.run_id} hears of {name}"
