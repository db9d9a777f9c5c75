"""AG-UI events have the times of the events they result from."""

import json

import pytest

from app.events import ClientEvent, ThinkingDelta
from app.http.ag_ui.releases.dialect import DIALECTS, Dialect
from app.streams.port import LogEntry
from tests.unit.http.ag_ui.test_encoder import an_encoder
from tests.unit.http.events import CALL, REQUEST, STARTED, entries_of


def with_times(events: list[ClientEvent]) -> list[LogEntry]:
    return [entry._replace(at=1_764_000_000_000 + entry.position) for entry in entries_of(*events)]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: str(dialect.since))
def test_every_event_has_the_time_of_what_it_results_from(dialect: Dialect) -> None:
    encoder = an_encoder(dialect=dialect)
    entries = with_times([STARTED, ThinkingDelta(message_id="m", delta="hm"), CALL, REQUEST])
    frames = encoder.encode(entries[:2]) + encoder.encode(entries[2:]) + encoder.encode_pause()
    sent = [json.loads(frame.removeprefix("data: ")) for frame in frames.decode().split("\n\n")[:-1]]
    first, last = entries[0].at, entries[-1].at
    assert {event["timestamp"] for event in sent if event["type"] == "RUN_STARTED"} == {first}
    assert all(isinstance(event["timestamp"], int) for event in sent)
    assert [event["timestamp"] for event in sent] == sorted(event["timestamp"] for event in sent)
    assert sent[-1]["timestamp"] == last
