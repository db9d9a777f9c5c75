"""ProcessChannel: requests from one server process to another, by way of the relay."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal
from uuid import UUID

import structlog
from pydantic import Field, TypeAdapter

from app.errors import AppError
from app.ids import new_uuid
from app.requests.wire_models import WireModel
from app.streams.relay.attachments import Attachments
from app.streams.relay.client import Relay
from app.streams.relay.connection import EventLogUnavailable

MAX_MESSAGE_BYTES = 2**17
"""Larger messages are neither sent nor parsed: the event loop would stand still meanwhile, and the relay
disconnects a receiver that is behind by 32 MB. Larger contents are `Attachments`."""
MAX_HANDLERS = 256
"""How many requests a process handles at once, besides urgent ones; more are refused as `OVERLOADED`."""
MAX_REFUSALS = 1024
"""How many requests are refused at once; those beyond get no answer."""
OVERLOADED = "overloaded"

Handler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]

log = structlog.get_logger(__name__)


class ProcessGone(AppError):
    """The server process is not connected."""


class ProcessRefused(AppError):
    """The server process refused the request."""

    def __init__(self, refusal: str) -> None:
        """`refusal` is the code of the error there."""
        super().__init__()
        self.refusal = refusal


class MessageTooLarge(ValueError):
    """A request or an answer has more than `MAX_MESSAGE_BYTES`."""


class _Request(WireModel):
    type: Literal["request"] = "request"
    request_id: UUID
    sender: UUID
    kind: str
    payload: dict[str, Any]


class _Answer(WireModel):
    type: Literal["answer"] = "answer"
    request_id: UUID
    payload: dict[str, Any] | None = None
    refusal: str | None = None


_MESSAGES: TypeAdapter[_Request | _Answer] = TypeAdapter(
    Annotated[_Request | _Answer, Field(discriminator="type")]
)


class ProcessChannel:
    """Answers requests of other processes, and sends requests to them.

    Each process has one channel, for the requests to it and for the answers to its own.
    """

    def __init__(self, relay: Relay, process_id: UUID) -> None:
        """The relay is closed by its owner, after the channel."""
        self._relay = relay
        own = relay.part(str(process_id))
        self.attachments = Attachments(relay)
        """What is too large for a request."""
        self._process_id = process_id
        self._handlers: dict[str, Handler] = {}
        self._urgent: set[str] = set()
        self._pending: dict[UUID, asyncio.Future[_Answer]] = {}
        self._handling_urgent: set[asyncio.Task[None]] = set()
        self._handling: set[asyncio.Task[None]] = set()
        self._refusing: set[asyncio.Task[None]] = set()
        self._is_overloaded = False
        self._subscribed = asyncio.Event()
        self._channel = f"{own.connection.prefix}process:{process_id}"
        self._subscriptions = own.subscriptions
        self._subscriptions.subscribe(self._channel, self)

    def serve(self, handlers: Mapping[str, Handler], *, urgent: bool = False) -> None:
        """Answer requests of these kinds. A handler's `AppError` is answered with its code.

        Urgent ones are handled however many others there are: their handlers must be fast.
        """
        self._handlers |= handlers
        if urgent:
            self._urgent |= set(handlers)

    async def request(
        self, process_id: UUID, kind: str, payload: dict[str, Any], *, timeout_s: float
    ) -> dict[str, Any]:
        """Send a request and return its answer.

        Raises `ProcessGone` if no process with this id is connected to the relay now, `TimeoutError` if it
        does not answer in time although this process receives its own messages, `EventLogUnavailable` if
        that cannot be known, `ProcessRefused`, and `MessageTooLarge`.
        """
        message = _Request(request_id=new_uuid(), sender=self._process_id, kind=kind, payload=payload)
        # Sent to this process when the answer is late: distinguishes a silent process from a relay that
        # delivers nothing.
        echo = _Answer(request_id=new_uuid())
        with self._awaiting(message) as answered, self._awaiting(echo) as echoed:
            deadline = asyncio.get_running_loop().time() + timeout_s
            await self._send(process_id, message, deadline=deadline)
            await asyncio.wait({answered}, timeout=timeout_s / 2)
            if not answered.done():
                await self._send(self._process_id, echo, deadline=deadline)
                await asyncio.wait({answered}, timeout=deadline - asyncio.get_running_loop().time())
            if not answered.done():
                raise TimeoutError if echoed.done() else EventLogUnavailable
            answer = answered.result()
        if answer.payload is None:
            raise ProcessRefused(answer.refusal or AppError.code)
        return answer.payload

    async def aclose(self) -> None:
        self._subscriptions.unsubscribe(self._channel, self)
        tasks = [*self._handling_urgent, *self._handling, *self._refusing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def on_subscribed(self) -> None:
        """Answers can be received."""
        self._subscribed.set()

    def on_message(self, payload: bytes) -> None:
        """Handle a request in a task of its own, or pass an answer to the request that waits for it."""
        if len(payload) > MAX_MESSAGE_BYTES:
            _ignore("size")
            return
        try:
            # Not `validate_json`: it refuses half surrogate pairs, which text may contain.
            message = _MESSAGES.validate_python(json.loads(payload))
        except (ValueError, RecursionError):
            _ignore("format")
            return
        if isinstance(message, _Answer):
            pending = self._pending.get(message.request_id)
            # Otherwise its request has timed out.
            if pending is not None and not pending.done():
                pending.set_result(message)
        elif message.kind in self._urgent:
            _start(self._handle(message), self._handling_urgent)
        elif self._has_room():
            _start(self._handle(message), self._handling)
        elif len(self._refusing) < MAX_REFUSALS:
            refusal = _Answer(request_id=message.request_id, refusal=OVERLOADED)
            _start(self._send_answer(message.sender, _encode(refusal)), self._refusing)

    def _has_room(self) -> bool:
        """Whether another request may be handled; logs when there is none any more."""
        if len(self._handling) < MAX_HANDLERS:
            self._is_overloaded &= len(self._handling) > MAX_HANDLERS / 2
            return True
        if not self._is_overloaded:
            self._is_overloaded = True
            _ignore("load")
        return False

    @contextmanager
    def _awaiting(self, message: "_Request | _Answer") -> Iterator[asyncio.Future[_Answer]]:
        """The answer with the id of this message."""
        answered: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._pending[message.request_id] = answered
        try:
            yield answered
        finally:
            del self._pending[message.request_id]

    async def _send(self, process_id: UUID, message: "_Request | _Answer", *, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                # Before that an answer could not be received.
                await self._subscribed.wait()
                receivers = await self._publish(process_id, _encode(message))
        except TimeoutError:
            raise EventLogUnavailable from None
        if not receivers:
            raise ProcessGone if isinstance(message, _Request) else EventLogUnavailable

    async def _publish(self, process_id: UUID, message: bytes) -> int:
        connection = self._relay.part(str(process_id)).connection
        return await connection.publish(f"{connection.prefix}process:{process_id}", message)

    async def _handle(self, request: _Request) -> None:
        await self._send_answer(request.sender, await self._answer(request))

    async def _send_answer(self, sender: UUID, answer: bytes) -> None:
        try:
            await self._publish(sender, answer)
        except EventLogUnavailable as error:
            log.warning("process_channel.answer_lost", reason=error.detail)

    async def _answer(self, request: _Request) -> bytes:
        refusal = "unknown_request"
        try:
            if (handler := self._handlers.get(request.kind)) is not None:
                payload = await handler(request.payload)
                return _encode(_Answer(request_id=request.request_id, payload=payload))
        except AppError as error:
            refusal = error.code
        except Exception:
            # Its text may quote contents; the sender gets a code only.
            log.exception("process_channel.handler_failed", kind=request.kind)
            refusal = AppError.code
        return _encode(_Answer(request_id=request.request_id, refusal=refusal))


def _start(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


def _encode(message: _Request | _Answer) -> bytes:
    encoded = json.dumps(message.model_dump(by_alias=True), default=_uuid_as_text).encode()
    if len(encoded) > MAX_MESSAGE_BYTES:
        raise MessageTooLarge
    return encoded


def _uuid_as_text(value: object) -> str:
    if not isinstance(value, UUID):
        raise TypeError(type(value))
    return str(value)


def _ignore(reason: str) -> None:
    log.warning("process_channel.message_refused", reason=reason)
