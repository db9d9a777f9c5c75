"""Requests while an event is being published, which takes as long as Redis or PostgreSQL do."""

import asyncio

import pytest

from app.errors import Unavailable
from app.events import ControlEvent, Interrupted, PermissionRequest, PermissionResolved
from app.executors.control import RunControl
from app.executors.inbox import RunEnded
from app.ids import new_uuid
from app.requests.messages import Message, SentMessage
from app.tools.policy import ToolCallDenied
from tests.factories import asking
from tests.patience import PATIENCE_S
from tests.unit.tools.calling import CONTEXT, a_tool
from tests.unit.waiting import turns

ACT = a_tool("test__act", "external_side_effect")
RULES = asking("external_side_effect", timeout_s=9)


class SlowReader:
    """Receives one event after the other, each when the test allows it."""

    def __init__(self) -> None:
        self.received: list[ControlEvent] = []
        self.unavailable = False
        self._may_receive = asyncio.Semaphore(0)
        self._one_by_one = asyncio.Lock()

    async def allow_next(self, count: int = 1) -> None:
        for _ in range(count):
            self._may_receive.release()
        await turns(20)

    @property
    def stops(self) -> list[tuple[str, str]]:
        return [(event.kind, event.state) for event in self.received if isinstance(event, Interrupted)]

    async def publish(self, event: ControlEvent) -> None:
        async with self._one_by_one:
            await self._may_receive.acquire()
            if self.unavailable:
                raise Unavailable
            self.received.append(event)


async def ended(*tasks: "asyncio.Task[None]") -> None:
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*tasks)


async def begun(control: RunControl, name: str) -> "asyncio.Task[None]":
    task = asyncio.create_task(getattr(control, name)())
    await turns(20)
    return task


@pytest.mark.parametrize("kind", ["interrupt", "cancel"])
async def test_a_stop_requested_while_the_last_one_is_published_is_a_new_one(kind: str) -> None:
    reader = SlowReader()
    control = RunControl(reader.publish)
    control.inbox.is_open = True
    requested = await begun(control, "interrupt")
    acknowledging = await begun(control, "acknowledge")
    await reader.allow_next(2)
    stopping = await begun(control, "mark_stopped")

    again = await begun(control, kind)
    await reader.allow_next(2)
    ending = await begun(control, "end")
    await reader.allow_next(2)
    await ended(requested, acknowledging, stopping, again, ending)

    states = ["requested", "acknowledged", "stopped"]
    assert reader.stops == [("interrupt", state) for state in states] + [(kind, state) for state in states]


async def test_a_cancel_after_an_interrupt_is_acknowledged_before_it_is_stopped() -> None:
    reader = SlowReader()
    control = RunControl(reader.publish)
    control.inbox.is_open = True
    requested = await begun(control, "interrupt")
    stopping = await begun(control, "mark_stopped")
    cancelling = await begun(control, "cancel")
    await reader.allow_next(9)
    ending = await begun(control, "end")

    await ended(requested, stopping, cancelling, ending)
    assert reader.stops == [
        ("interrupt", "requested"),
        ("interrupt", "acknowledged"),
        ("cancel", "requested"),
        ("cancel", "acknowledged"),
        ("cancel", "stopped"),
    ]


async def test_the_state_of_a_stop_is_published_also_if_its_caller_is_cancelled() -> None:
    reader = SlowReader()
    control = RunControl(reader.publish)
    requested = await begun(control, "cancel")
    acknowledging = await begun(control, "acknowledge")

    acknowledging.cancel()
    ending = await begun(control, "end")
    await reader.allow_next(9)

    await ended(requested, ending)
    assert [state for _, state in reader.stops] == ["requested", "acknowledged", "stopped"]


@pytest.mark.parametrize("received", [True, False])
async def test_a_call_cancelled_while_its_request_is_published(*, received: bool) -> None:
    """Readers that saw the request see its resolution; others see neither."""
    reader = SlowReader()
    control = RunControl(reader.publish, permissions=RULES)
    reader.unavailable = not received
    calling = asyncio.create_task(control.approvals.review(ACT, {}, CONTEXT))
    await turns(20)

    calling.cancel()
    ending = await begun(control, "end")
    await reader.allow_next(2)

    await ended(ending)
    kinds = [type(event) for event in reader.received]
    assert kinds == ([PermissionRequest, PermissionResolved] if received else [])
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_no_approval_is_requested_after_the_run_has_ended() -> None:
    reader = SlowReader()
    control = RunControl(reader.publish, permissions=RULES)
    await control.end()

    with pytest.raises(ToolCallDenied):
        await control.approvals.review(ACT, {}, CONTEXT)
    assert reader.received == []


async def test_a_repeated_message_changes_nothing_once_the_run_is_to_stop() -> None:
    control = RunControl(SlowReader().publish)
    sent = SentMessage(str(new_uuid()), Message.of(role="user", content="hello"), "next")
    control.send(sent)
    control.stop.set()

    control.send(sent)
    with pytest.raises(RunEnded):
        control.send(sent._replace(message_id=str(new_uuid())))
