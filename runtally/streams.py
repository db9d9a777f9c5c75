"""RunStream and AsyncRunStream: the events of a run, and what can be done with it meanwhile."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from typing import Any, Self, Unpack

import httpx

from runtally.errors import Forbidden, RuntallyError
from runtally.events import Event
from runtally.options import DecisionOptions, Priority
from runtally.protocol import calls
from runtally.protocol.call import AsyncSend, Send
from runtally.protocol.following import Following, not_ended
from runtally.types import GraphFinal, SentMessage, StartedRun


class _Stream:
    """What both streams know of their run."""

    def __init__(self, following: Following) -> None:
        self._following = following
        self._final: GraphFinal | None = None

    @property
    def run_id(self) -> str:
        """The id of the run, also before the server has it."""
        return self._following.run_id

    @property
    def last_event_id(self) -> int:
        """The position of the last event received: `follow(run_id, after=…)` continues there."""
        return self._following.position

    @property
    def final(self) -> GraphFinal:
        """How the run ended; raises `RuntallyError` before all events are read."""
        if self._final is None:
            raise not_ended(self.run_id)
        return self._final


class RunStream(_Stream):
    """The events of a run, each once and in order; it reconnects by itself.

    Leaving it early, or closing it, does not stop the run.
    """

    def __init__(self, call: Send, http: httpx.Client, following: Following) -> None:
        super().__init__(following)
        self._call = call
        self._http = http
        self._events = self._read()

    def __iter__(self) -> Iterator[Event]:
        return self._events

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the run continues."""
        self._events.close()

    def result(self) -> GraphFinal:
        """Read the events that are left and return how the run ended."""
        for _ in self._events:
            pass
        return self.final

    def cancel(self) -> StartedRun:
        """See `Client.cancel`."""
        return self._call(calls.cancel_run(self.run_id))

    def interrupt(self, *, after_tool: bool = False) -> StartedRun:
        """See `Client.interrupt`."""
        return self._call(calls.interrupt_run(self.run_id, after_tool=after_tool))

    def send(self, text: str, priority: Priority = "next") -> SentMessage:
        """See `Client.send`."""
        return self._call(calls.send_message(self.run_id, text, priority=priority))

    def decide(self, request_id: str, *, allow: bool, **options: Unpack[DecisionOptions]) -> None:
        """See `Client.decide`."""
        self._call(calls.decide_permission(self.run_id, request_id, allow=allow, options=options))

    def answer(self, request_id: str, answers: Mapping[str, str | Sequence[str]] | None) -> None:
        """See `Client.answer`."""
        self._call(calls.answer_question(self.run_id, request_id, answers))

    def submit_tool_result(self, tool_call_id: str, result: Any, *, is_error: bool = False) -> None:
        """See `Client.submit_tool_result`."""
        self._call(calls.submit_tool_result(self.run_id, tool_call_id, result, is_error=is_error))

    def _read(self) -> Generator[Event, None, None]:
        following = self._following
        while not following.ended:
            call = following.call()
            try:
                with self._http.stream(call.method, call.path, **call.options()) as response:
                    if not response.is_success:
                        response.read()
                    following.opened(response)
                    for chunk in response.iter_bytes():
                        yield from following.received(chunk)
                        if following.ended:
                            break
                    following.closed()
            except (httpx.RequestError, RuntallyError) as error:
                time.sleep(following.delay_after(error))
        self._final = self._result()

    def _result(self) -> GraphFinal:
        try:
            return self._following.final_of(self._call(self._following.result_call()))
        except Forbidden as refused:
            return self._call(self._following.result_by_joining(refused))


class AsyncRunStream(_Stream):
    """The events of a run, each once and in order; it reconnects by itself.

    Leaving it early, or closing it, does not stop the run. `async with` closes the
    connection of one that is left.
    """

    def __init__(self, call: AsyncSend, http: httpx.AsyncClient, following: Following) -> None:
        super().__init__(following)
        self._call = call
        self._http = http
        self._events = self._read()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection; the run continues."""
        await self._events.aclose()

    async def result(self) -> GraphFinal:
        """Read the events that are left and return how the run ended."""
        async for _ in self._events:
            pass
        return self.final

    async def cancel(self) -> StartedRun:
        """See `AsyncClient.cancel`."""
        return await self._call(calls.cancel_run(self.run_id))

    async def interrupt(self, *, after_tool: bool = False) -> StartedRun:
        """See `AsyncClient.interrupt`."""
        return await self._call(calls.interrupt_run(self.run_id, after_tool=after_tool))

    async def send(self, text: str, priority: Priority = "next") -> SentMessage:
        """See `AsyncClient.send`."""
        return await self._call(calls.send_message(self.run_id, text, priority=priority))

    async def decide(self, request_id: str, *, allow: bool, **options: Unpack[DecisionOptions]) -> None:
        """See `AsyncClient.decide`."""
        await self._call(calls.decide_permission(self.run_id, request_id, allow=allow, options=options))

    async def answer(self, request_id: str, answers: Mapping[str, str | Sequence[str]] | None) -> None:
        """See `AsyncClient.answer`."""
        await self._call(calls.answer_question(self.run_id, request_id, answers))

    async def submit_tool_result(self, tool_call_id: str, result: Any, *, is_error: bool = False) -> None:
        """See `AsyncClient.submit_tool_result`."""
        await self._call(calls.submit_tool_result(self.run_id, tool_call_id, result, is_error=is_error))

    async def _read(self) -> AsyncGenerator[Event, None]:
        following = self._following
        while not following.ended:
            call = following.call()
            try:
                async with self._http.stream(call.method, call.path, **call.options()) as response:
                    if not response.is_success:
                        await response.aread()
                    following.opened(response)
                    async for chunk in response.aiter_bytes():
                        for event in following.received(chunk):
                            yield event
                        if following.ended:
                            break
                    following.closed()
            except (httpx.RequestError, RuntallyError) as error:
                await asyncio.sleep(following.delay_after(error))
        self._final = await self._result()

    async def _result(self) -> GraphFinal:
        try:
            return self._following.final_of(await self._call(self._following.result_call()))
        except Forbidden as refused:
            return await self._call(self._following.result_by_joining(refused))
