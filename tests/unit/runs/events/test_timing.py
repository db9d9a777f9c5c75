from prometheus_client import CollectorRegistry

from app.events import AiEvent, MeterReport, Status, TextDelta
from app.platform.metrics.families import KnownNames
from app.platform.metrics.runs import RunMetrics
from app.runs.events.timing import TimedEvents
from app.usage.records import Meters


class Sink:
    """Takes every event."""

    def __init__(self) -> None:
        self.events: list[AiEvent] = []

    async def publish(self, event: AiEvent) -> int | None:
        self.events.append(event)
        return len(self.events)


async def test_the_first_event_and_the_first_text_of_an_attempt_are_measured_once() -> None:
    registry, sink = CollectorRegistry(), Sink()
    metrics = RunMetrics(registry, graphs=KnownNames(frozenset({"messages:assistant"})))
    events = TimedEvents(sink, metrics.attempt("messages:assistant"))
    of_subagent = TextDelta(message_id="m", delta="x", parent_tool_call_id="call")
    counts = []

    for event in (
        MeterReport(Meters(sdk=1, gateway=1, drift=0), tool_failures=0),
        Status(phase="thinking", label="Thinking"),
        of_subagent,
        TextDelta(message_id="m", delta="x"),
        TextDelta(message_id="m", delta="y"),
    ):
        assert await events.publish(event) == len(sink.events)
        counts.append(
            tuple(
                registry.get_sample_value(f"runtally_first_{what}_seconds_count", {"executor": "messages"})
                for what in ("event", "text")
            )
        )

    assert counts == [(0, 0), (1, 0), (1, 0), (1, 1), (1, 1)]
