"""TimedEvents: measures when the events of an executor are published."""

from dataclasses import dataclass

from app.events import AiEvent
from app.executors.port import EventSink
from app.platform.metrics.runs import AttemptTimer


@dataclass(frozen=True, slots=True)
class TimedEvents:
    """Implements `EventSink`: passes every event on."""

    sink: EventSink
    timer: AttemptTimer

    async def publish(self, event: AiEvent) -> int | None:
        position = await self.sink.publish(event)
        self.timer.published(event)
        return position
