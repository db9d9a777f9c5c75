"""Opens the event log, what readers of runs need, and the channel between server processes."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import datetime
from uuid import UUID

from anyio.abc import TaskGroup

from app.platform.clock.clock import Clock, host_time
from app.platform.db import Database
from app.platform.network import SYSTEM
from app.platform.settings import Settings, SettingsError
from app.runs.events.endings import RunEndings
from app.runs.events.reader import RunEventReader
from app.runs.supervisor import RunSupervisor
from app.streams.memory import MemoryEventLog
from app.streams.port import EventLog
from app.streams.process_channel import ProcessChannel
from app.streams.relay.address import NotAnAddress
from app.streams.relay.client import Relay
from app.streams.relayed import RelayedEventLog


async def open_relay(settings: Settings, stack: AsyncExitStack) -> Relay | None:
    """The connections to the operator's Valkey or Redis, if there is one; raises `RelayNotUsable`."""
    if settings.redis_url is None:
        return None
    try:
        # Without a file a connection trusts the authorities of the operating system.
        ca_file = None if settings.ca_file == SYSTEM else settings.ca_file
        relay = await Relay.open(settings.redis_url, ca_file=ca_file)
    except ValueError as error:
        # Of a library, its text may quote the URL.
        what = error if isinstance(error, NotAnAddress) else "it cannot be read"
        message = f"REDIS_URL is no valid URL: {what}; write redis://:password@host:port/0."
        raise SettingsError(message) from error
    stack.push_async_callback(relay.aclose)
    return relay


def open_log(
    relay: Relay | None, stack: AsyncExitStack, *, now: Callable[[], datetime] = host_time
) -> EventLog:
    if relay is None:
        return MemoryEventLog(now)
    event_log = RelayedEventLog(relay, now)
    stack.push_async_callback(event_log.aclose)
    return event_log


async def open_shared_log(
    settings: Settings, process_id: UUID, clock: Clock, *, stack: AsyncExitStack
) -> tuple[EventLog, ProcessChannel | None]:
    """The event log, and the channel that answers other processes if there can be any."""
    relay = await open_relay(settings, stack)
    event_log = open_log(relay, stack, now=clock.now)
    if relay is None:
        return event_log, None
    channel = ProcessChannel(relay, process_id)
    stack.push_async_callback(channel.aclose)
    return event_log, channel


def open_reader(
    database: Database, event_log: EventLog, supervisor: RunSupervisor, *, tasks: TaskGroup
) -> RunEventReader:
    endings = RunEndings(database, event_log, is_active=supervisor.is_active)
    tasks.start_soon(endings.watch)
    return RunEventReader(database, event_log, endings)
