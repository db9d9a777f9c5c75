"""RunCommands: what one can ask of a run under way, whichever process carries it."""

import asyncio
from typing import Annotated, Any, Literal
from uuid import UUID

import anyio
import structlog
from pydantic import Field, TypeAdapter

from app.db import Database
from app.errors import AppError, FieldError, Invalid, NotFound, Unavailable
from app.executors.approvals import Decision, PermissionDecided, PermissionNotFound, is_less_strict
from app.executors.control import RETRY_AFTER_S, MessageLimits, MessageQueueFull, RunEnded
from app.ids import RunKey
from app.principal import ScopeMissing
from app.requests import Message, PermissionMode, Priority, SentMessage, WireModel
from app.runs.commands.records import StoredCommand
from app.runs.commands.repository import (
    answer_command,
    command_answer,
    commands_for,
    insert_command,
    pending_commands,
)
from app.runs.records import RunRecord
from app.runs.repository import find_run
from app.runs.supervisor import ActiveRun, RunSupervisor

log = structlog.get_logger(__name__)

POLL_S = 0.25
"""How often a process that carries runs looks for commands other processes were given."""

DELIVERY_WAIT_S = 2.0
"""How long whoever sends a message waits to hear where it took effect."""

_COMMANDS_AT_ONCE = 100
_ANSWER_S = 10.0
_ANSWER_POLL_S = 0.1


class RunNotFound(NotFound):
    """There is no run with this id."""

    code = "run_not_found"


class RunOnAnotherServer(Unavailable):
    """The server process that carries this run does not answer; try again later."""

    code = "carried_elsewhere"


class Stop(WireModel):
    """End the run, or only its turn."""

    type: Literal["stop"] = "stop"
    kind: Literal["interrupt", "cancel"]


class Send(WireModel):
    """Say something to the agent."""

    type: Literal["send"] = "send"
    message_id: str
    content: Any
    priority: Priority


class Decide(WireModel):
    """Decide about a tool call that waits."""

    type: Literal["decide"] = "decide"
    request_id: str
    decision: Literal["allow", "deny"]
    args: dict[str, Any] | None = None
    message: str | None = None


class ChangeMode(WireModel):
    """Call tools more or less freely."""

    type: Literal["change_mode"] = "change_mode"
    mode: PermissionMode
    may_loosen: bool = False
    """Whether whoever asks may decide in a person's place."""


Command = Stop | Send | Decide | ChangeMode
_COMMANDS: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="type")])

_REFUSALS: dict[str, type[AppError]] = {
    error.code: error
    for error in (RunEnded, MessageQueueFull, PermissionNotFound, PermissionDecided, ScopeMissing, Invalid)
}
"""What a run may answer instead of obeying."""


class RunCommands:
    """Passes commands to runs: directly where they are carried here, else by way of the database."""

    def __init__(
        self, database: Database, supervisor: RunSupervisor, *, process_id: UUID, limits: MessageLimits
    ) -> None:
        """`limits` hold for what waits in the database for runs of other processes, too."""
        self._database = database
        self._supervisor = supervisor
        self._process_id = process_id
        self._limits = limits
        self._in_progress: set[int] = set()

    async def stop(self, run: RunKey, kind: Literal["interrupt", "cancel"]) -> RunRecord:
        """Ask a run to stop; one that has ended stays as it is. Raises `RunNotFound`."""
        record = await self._get(run)
        command = Stop(kind=kind)
        if (live := self._supervisor.find(run)) is not None:
            await _apply(live, command)
        elif not record.finished:
            await self._enqueue(run, command)
        return await self._get(run)

    async def submit(self, run: RunKey, command: Command) -> dict[str, Any]:
        """Have a command carried out.

        Raises `RunNotFound`, `RunEnded`, what the command itself may raise, and `RunOnAnotherServer`
        when the process that carries the run does not answer.
        """
        record = await self._get(run)
        if (live := self._supervisor.find(run)) is not None:
            return await _apply(live, command)
        if record.finished:
            raise RunEnded
        command_id = await self._enqueue(run, command)
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await self._answer(run, command_id)
        except TimeoutError:
            raise RunOnAnotherServer(retry_after_s=1) from None

    async def watch(self) -> None:
        """Carry out what other processes were asked of the runs here, until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                await asyncio.sleep(POLL_S)
                if self._supervisor.is_idle():
                    continue
                # One that is answered while we look may look unanswered.
                in_progress = frozenset(self._in_progress)
                try:
                    async with self._database.snapshot() as reader:
                        given = await commands_for(
                            reader, self._process_id, besides=in_progress, limit=_COMMANDS_AT_ONCE
                        )
                except Unavailable as error:
                    log.warning("commands from other processes are not heard now", reason=error.detail)
                    continue
                for each in given:
                    self._in_progress.add(each.id)
                    tasks.start_soon(self._process, each)

    async def _process(self, given: StoredCommand) -> None:
        live = self._supervisor.find(given.run)
        answer = await _apply_stored(live, given.command)
        try:
            async with self._database.transaction() as tx:
                await answer_command(tx, given.id, answer)
        except Unavailable as error:
            # To obey twice is to obey once.
            log.warning("a command cannot be answered now", reason=error.detail)
        finally:
            self._in_progress.discard(given.id)

    async def _get(self, run: RunKey) -> RunRecord:
        async with self._database.snapshot() as reader:
            record = await find_run(reader, run)
        if record is None:
            raise RunNotFound
        return record

    async def _enqueue(self, run: RunKey, command: Command) -> int:
        plain = command.model_dump(mode="json", by_alias=True)
        async with self._database.transaction() as tx:
            waiting = await pending_commands(tx, run)
            if isinstance(command, Stop) and (same := waiting.stops.get(command.kind)) is not None:
                return same
            if waiting.count >= self._limits.count or waiting.size >= self._limits.size:
                raise MessageQueueFull(retry_after_s=RETRY_AFTER_S)
            return await insert_command(tx, run, plain)

    async def _answer(self, run: RunKey, command_id: int) -> dict[str, Any]:
        while True:
            finished = (await self._get(run)).finished
            async with self._database.snapshot() as reader:
                answer = await command_answer(reader, command_id)
            if answer is not None:
                return _result_of(answer)
            if finished:
                raise RunEnded
            await asyncio.sleep(_ANSWER_POLL_S)


async def _apply(live: ActiveRun, command: Command) -> dict[str, Any]:
    control = live.context.control
    match command:
        case Stop(kind=kind):
            await (control.cancel() if kind == "cancel" else control.interrupt())
        case Send():
            message = Message.model_validate({"role": "user", "content": command.content})
            control.send(SentMessage(command.message_id, message, command.priority))
            position = await control.wait_for_position(command.message_id, within_s=DELIVERY_WAIT_S)
            return {"position": position}
        case Decide():
            decision = Decision(command.decision, command.args, command.message)
            await control.approvals.decide(command.request_id, decision)
        case ChangeMode(mode=mode, may_loosen=may_loosen):
            _change_mode(live, mode, may_loosen=may_loosen)
    return {}


def _change_mode(live: ActiveRun, mode: PermissionMode, *, may_loosen: bool) -> None:
    spec, approvals = live.context.spec, live.context.control.approvals
    if mode not in {spec.permission_mode, *spec.permission_modes}:
        raise Invalid.field("permissionMode", f"the graph {spec.id} does not allow {mode!r}")
    if not may_loosen and is_less_strict(mode, than=approvals.mode):
        raise ScopeMissing.of("runs:approve")
    approvals.mode = mode


async def _apply_stored(live: ActiveRun | None, command: dict[str, Any]) -> dict[str, Any]:
    try:
        if live is None:
            raise RunEnded
        return {"done": await _apply(live, _COMMANDS.validate_python(command))}
    except AppError as error:
        errors = [[fault.field, fault.message] for fault in error.errors]
        return {"refused": {"code": error.code, "detail": error.detail, "errors": errors}}


def _result_of(answer: dict[str, Any]) -> dict[str, Any]:
    if (refused := answer.get("refused")) is None:
        done: dict[str, Any] = answer["done"]
        return done
    errors = [FieldError(*fault) for fault in refused["errors"]]
    raise _REFUSALS[refused["code"]](refused["detail"], errors=errors)
