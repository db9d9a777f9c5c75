"""CommandReceiver: applies the commands that other processes send to runs of this one."""

from functools import partial
from typing import Any

import structlog
from pydantic_core import from_json

from app.errors import AppError, Unavailable
from app.platform.concurrency.offload import Offload
from app.platform.logs.context import for_run
from app.platform.server.memory import MemoryCeiling
from app.runs.commands.answers import Answer, CommandFailed, CommandRefusal, NotApplied
from app.runs.commands.application import apply
from app.runs.commands.applied import AppliedCommands
from app.runs.commands.records import COMMANDS, Command
from app.runs.commands.remote import ANSWER_WITHIN_S, KIND, RunCommandRequest
from app.runs.supervisor import RunSupervisor
from app.streams.process_channel import ProcessChannel

log = structlog.get_logger(__name__)

_LARGE_AT_ONCE = 4
"""How many attachments are read at once; the senders of others try again."""
_COPIES_WHILE_PARSING = 4
"""Memory used while parsing, as a multiple of the attachment."""


class CommandReceiver:
    """Answers the requests of `RemoteCommand`."""

    def __init__(
        self,
        channel: ProcessChannel,
        supervisor: RunSupervisor,
        *,
        offload: Offload,
        memory: MemoryCeiling,
        answer_within_s: float = ANSWER_WITHIN_S,
    ) -> None:
        """Begins at once; `channel` is closed by its owner."""
        self._channel = channel
        self._supervisor = supervisor
        self._offload = offload
        self._memory = memory
        self._answer_within_s = answer_within_s
        self._applied = AppliedCommands()
        self._large = 0
        channel.serve({KIND: self._answer})

    async def aclose(self) -> None:
        await self._applied.aclose()

    async def _answer(self, payload: dict[str, Any]) -> dict[str, Any]:
        request = RunCommandRequest.model_validate(payload)
        with for_run(request.run):
            try:
                answer = await self._applied.answer(
                    request.run,
                    request.command_id,
                    partial(self._apply, request),
                    within_s=self._answer_within_s,
                )
            except AppError as error:
                answer = Answer(refusal=CommandRefusal.of(error))
        return answer.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def _apply(self, request: RunCommandRequest) -> Answer:
        run = self._supervisor.find(request.run)
        if run is None:
            return Answer(not_applied="not_here")
        try:
            command = await self._command(request)
            return Answer(result=await apply(run, command))
        except NotApplied as error:
            return Answer(not_applied=error.reason)
        except AppError as error:
            return Answer(refusal=CommandRefusal.of(error))
        except Exception:
            # Such as a command of a newer server. Its sender must get an answer, and no contents.
            log.exception("command.failed")
            return Answer(refusal=CommandRefusal.of(CommandFailed()))

    async def _command(self, request: RunCommandRequest) -> Command:
        if request.attached_bytes is None:
            return _parse(request.command or "")
        if self._large >= _LARGE_AT_ONCE:
            raise NotApplied("overloaded")
        self._large += 1
        try:
            return await self._attached_command(request, size=request.attached_bytes)
        finally:
            self._large -= 1

    async def _attached_command(self, request: RunCommandRequest, *, size: int) -> Command:
        try:
            self._memory.require_room(_COPIES_WHILE_PARSING * size)
            content = await self._channel.attachments.load(request.command_id, size=size)
        except Unavailable:
            raise NotApplied("overloaded") from None
        if content is None:
            raise NotApplied("content_missing")
        return await self._offload.run(partial(_parse, content), size=size)


def _parse(text: str | bytes) -> Command:
    # In two steps: takes a quarter of the time of `validate_json`.
    return COMMANDS.validate_python(from_json(text))
