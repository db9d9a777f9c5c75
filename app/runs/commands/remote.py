"""CommandSender: sends commands to the processes that execute the runs."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.concurrency.offload import SMALL_BYTES, Offload
from app.platform.serialization.large_json import dumps
from app.requests.wire_models import WireModel
from app.runs.commands.answers import Answer, NotApplied
from app.runs.commands.records import Command, size_of
from app.streams.process_channel import OVERLOADED, ProcessChannel, ProcessGone, ProcessRefused
from app.streams.relay.connection import EventLogUnavailable

KIND = "run_command"

ANSWER_WITHIN_S = 1.0
"""After that a process answers `pending`, and the command is sent again to wait for its result."""
_REQUEST_S = ANSWER_WITHIN_S + 1.5


class RunCommandRequest(WireModel):
    """A command as it is sent: as JSON, or as an attachment if that is large."""

    command_id: UUID
    """The same each time the command is sent. Also the id of the attachment."""
    account_id: AccountId
    run_id: RunId
    command: str | None = None
    attached_bytes: int | None = None

    @property
    def run(self) -> RunKey:
        return RunKey(self.account_id, self.run_id)


class RemoteCommand:
    """May be sent several times, also to different processes: each applies it once."""

    def __init__(self, channel: ProcessChannel, offload: Offload, run: RunKey, command: Command) -> None:
        self._channel = channel
        self._offload = offload
        self._run = run
        self._command = command
        self._id = new_uuid()
        self._text: str | None = None
        """The command as JSON, if it is small."""
        self._attached_bytes: int | None = None
        self._is_stored = False

    async def send(self, process_id: UUID, *, until: float) -> Answer:
        """Send the command and return its answer; `until` is a time of the event loop.

        Raises `NotApplied` if the process does not answer.
        """
        try:
            async with asyncio.timeout_at(until):
                payload = (await self._request()).model_dump(mode="json", by_alias=True, exclude_none=True)
                answer = await self._channel.request(process_id, KIND, payload, timeout_s=_REQUEST_S)
        except ProcessGone:
            raise NotApplied("process_gone") from None
        except TimeoutError:
            raise NotApplied("timeout") from None
        except EventLogUnavailable:
            raise NotApplied("relay_unavailable") from None
        except ProcessRefused as error:
            # Also a process that is just starting.
            raise NotApplied("overloaded" if error.refusal == OVERLOADED else "not_here") from None
        received = Answer.model_validate(answer)
        if received.not_applied == "content_missing":
            self._is_stored = False
        return received

    async def discard(self) -> None:
        """It will not be sent again."""
        if self._attached_bytes is not None:
            # It expires otherwise.
            with suppress(EventLogUnavailable):
                await self._channel.attachments.delete(self._id, size=self._attached_bytes)

    async def _request(self) -> RunCommandRequest:
        if self._text is None and not self._is_stored:
            await self._store(await self._offload.run(self._encode, size=size_of(self._command)))
        return RunCommandRequest(
            command_id=self._id,
            account_id=self._run.account_id,
            run_id=self._run.run_id,
            command=self._text,
            attached_bytes=self._attached_bytes,
        )

    async def _store(self, content: bytes) -> None:
        if len(content) <= SMALL_BYTES:
            self._text = content.decode()
            return
        self._attached_bytes = len(content)
        await self._channel.attachments.store(self._id, content)
        self._is_stored = True

    def _encode(self) -> bytes:
        return dumps(self._command.model_dump(mode="json", by_alias=True)).encode()


@dataclass(frozen=True, slots=True)
class CommandSender:
    """Sends commands by way of the relay."""

    channel: ProcessChannel
    offload: Offload

    def prepare(self, run: RunKey, command: Command) -> RemoteCommand:
        """A command that may be sent; `discard` it in the end."""
        return RemoteCommand(self.channel, self.offload, run, command)
