"""RunCommands: sends commands to running runs, in this process or in another one."""

import asyncio
from functools import partial
from typing import Annotated, Any, Literal, assert_never
from uuid import UUID

import anyio
import structlog
from anyio.abc import TaskGroup
from pydantic import Field, TypeAdapter

from app.background import forever
from app.db import Database
from app.errors import AppError, FieldError, Invalid, NotFound, Unavailable
from app.executors.approvals import Decision, PermissionDecided, PermissionNotFound, is_less_strict
from app.executors.inbox import RETRY_AFTER_S, MessageLimits, MessageQueueFull, RunEnded
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
"""How often a process that executes runs polls for commands that other processes received."""

DELIVERY_WAIT_S = 2.0
"""How long the sender of a message waits for the position at which it takes effect."""

_COMMANDS_AT_ONCE = 100
_ANSWER_S = 10.0
_ANSWER_POLL_S = 0.1


class RunNotFound(NotFound):
    """There is no run with this id."""

    code = "run_not_found"


class RunOnAnotherServer(Unavailable):
    """The server process that executes this run does not answer; try again later."""

    code = "carried_elsewhere"


class CommandFailed(AppError):
    """The command failed with an internal error."""


class Stop(WireModel):
    """Stop the run (`cancel`) or only its turn (`interrupt`)."""

    type: Literal["stop"] = "stop"
    kind: Literal["interrupt", "cancel"]


class Send(WireModel):
    """Send a message to the agent."""

    type: Literal["send"] = "send"
    message_id: str
    content: Any
    priority: Priority


class Decide(WireModel):
    """Allow or deny a waiting tool call."""

    type: Literal["decide"] = "decide"
    request_id: str
    decision: Literal["allow", "deny"]
    args: dict[str, Any] | None = None
    message: str | None = None


class ChangeMode(WireModel):
    """Change the permission mode."""

    type: Literal["change_mode"] = "change_mode"
    mode: PermissionMode
    may_loosen: bool = False
    """Whether the caller may approve tool calls, and so choose a less strict mode."""


Command = Stop | Send | Decide | ChangeMode
_COMMANDS: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="type")])

_REFUSALS: dict[str, type[AppError]] = {
    error.code: error
    for error in (
        *(RunEnded, MessageQueueFull, PermissionNotFound, PermissionDecided),
        *(ScopeMissing, Invalid, CommandFailed),
    )
}
"""The errors with which a run may refuse a command, by code."""


class RunCommands:
    """Applies commands to runs of this process directly, and sends others by way of the database."""

    def __init__(
        self, database: Database, supervisor: RunSupervisor, *, process_id: UUID, limits: MessageLimits
    ) -> None:
        """`limits` also apply to the commands that wait in the database for runs of other processes."""
        self._database = database
        self._supervisor = supervisor
        self._process_id = process_id
        self._limits = limits
        self._in_progress: set[int] = set()

    async def stop(self, run: RunKey, kind: Literal["interrupt", "cancel"]) -> RunRecord:
        """Request a run to stop; one that has ended stays as it is. Raises `RunNotFound`."""
        record = await self._get(run)
        command = Stop(kind=kind)
        if (active := self._supervisor.find(run)) is not None:
            await _apply(active, command)
        elif not record.finished:
            await self._enqueue(run, command)
        return await self._get(run)

    async def submit(self, run: RunKey, command: Command) -> dict[str, Any]:
        """Apply a command and return its result.

        Raises `RunNotFound`, `RunEnded`, what the command itself raises, and `RunOnAnotherServer` if
        the process that executes the run does not answer.
        """
        record = await self._get(run)
        if (active := self._supervisor.find(run)) is not None:
            return await _apply(active, command)
        if record.finished:
            raise RunEnded
        command_id = await self._enqueue(run, command)
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await self._wait_for_answer(run, command_id)
        except TimeoutError:
            raise RunOnAnotherServer(retry_after_s=1) from None

    async def watch(self) -> None:
        """Apply the commands that other processes received for runs of this one, until cancelled."""
        async with anyio.create_task_group() as tasks:
            await forever(partial(self._poll, tasks), POLL_S, name="run commands")

    async def _poll(self, tasks: TaskGroup) -> None:
        # A copy: a command that is answered during the query may still be read as unanswered.
        in_progress = frozenset(self._in_progress)
        async with self._database.read() as reader:
            waiting = await commands_for(
                reader, self._process_id, besides=in_progress, limit=_COMMANDS_AT_ONCE
            )
        for stored in waiting:
            self._in_progress.add(stored.id)
            tasks.start_soon(self._process, stored)

    async def _process(self, stored: StoredCommand) -> None:
        """Apply a command and store its answer. Never raises: that would end every other command."""
        with structlog.contextvars.bound_contextvars(run_id=stored.run.run_id):
            try:
                answer = await _apply_stored(self._supervisor.find(stored.run), stored.command)
                async with self._database.transaction() as tx:
                    await answer_command(tx, stored.id, answer)
            except Unavailable as error:
                # The next poll applies it again, which has no further effect.
                log.warning("command.answer_delayed", reason=error.detail)
            except Exception:
                log.exception("command.answer_failed")
            finally:
                self._in_progress.discard(stored.id)

    async def _get(self, run: RunKey) -> RunRecord:
        async with self._database.snapshot() as reader:
            record = await find_run(reader, run)
        if record is None:
            raise RunNotFound
        return record

    async def _enqueue(self, run: RunKey, command: Command) -> int:
        plain = command.model_dump(mode="json", by_alias=True)
        async with self._database.transaction() as tx:
            pending = await pending_commands(tx, run)
            if isinstance(command, Stop) and (same := pending.stops.get(command.kind)) is not None:
                return same
            if pending.count >= self._limits.count or pending.size >= self._limits.size:
                raise MessageQueueFull(retry_after_s=RETRY_AFTER_S)
            return await insert_command(tx, run, plain)

    async def _wait_for_answer(self, run: RunKey, command_id: int) -> dict[str, Any]:
        while True:
            finished = (await self._get(run)).finished
            async with self._database.snapshot() as reader:
                answer = await command_answer(reader, command_id)
            if answer is not None:
                return _result_of(answer)
            if finished:
                raise RunEnded
            await asyncio.sleep(_ANSWER_POLL_S)


async def _apply(run: ActiveRun, command: Command) -> dict[str, Any]:
    control = run.control
    match command:
        case Stop(kind=kind):
            await (control.cancel() if kind == "cancel" else control.interrupt())
        case Send():
            message = Message.model_validate({"role": "user", "content": command.content})
            control.send(SentMessage(command.message_id, message, command.priority))
            position = await control.inbox.wait_for_position(command.message_id, within_s=DELIVERY_WAIT_S)
            return {"position": position}
        case Decide():
            decision = Decision(command.decision, command.args, command.message)
            await control.approvals.decide(command.request_id, decision)
        case ChangeMode(mode=mode, may_loosen=may_loosen):
            _change_mode(run, mode, may_loosen=may_loosen)
        case _:
            assert_never(command)
    return {}


def _change_mode(run: ActiveRun, mode: PermissionMode, *, may_loosen: bool) -> None:
    spec, approvals = run.plan.spec, run.control.approvals
    if mode not in {spec.permission_mode, *spec.permission_modes}:
        raise Invalid.field("permissionMode", f"the graph {spec.id} does not allow {mode!r}")
    if not may_loosen and is_less_strict(mode, than=approvals.mode):
        raise ScopeMissing.of("runs:approve")
    approvals.mode = mode


async def _apply_stored(run: ActiveRun | None, command: dict[str, Any]) -> dict[str, Any]:
    """The answer to a command: its result, or the error that refuses it."""
    if run is None:
        return _refusal(RunEnded())
    try:
        return {"done": await _apply(run, _COMMANDS.validate_python(command))}
    except AppError as error:
        return _refusal(error)
    except Exception:
        # Such as a command of a newer server. It must be answered, or every poll would read it again.
        log.exception("command.failed")
        return _refusal(CommandFailed())


def _refusal(error: AppError) -> dict[str, Any]:
    errors = [[fault.field, fault.message] for fault in error.errors]
    return {"refused": {"code": error.code, "detail": error.detail, "errors": errors}}


def _result_of(answer: dict[str, Any]) -> dict[str, Any]:
    if (refused := answer.get("refused")) is None:
        done: dict[str, Any] = answer["done"]
        return done
    errors = [FieldError(*fault) for fault in refused["errors"]]
    raise _REFUSALS[refused["code"]](refused["detail"], errors=errors)
