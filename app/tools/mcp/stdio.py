"""bounded_stdio: the library's transport for MCP servers that are programs, with a limit per line."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import anyio
import structlog
from anyio.abc import Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from app.platform.background import run_to_completion
from app.tools.mcp.limits import MAX_VALUES, ResponseLimit, read_json
from app.tools.mcp.text import one_line

log = structlog.get_logger(__name__)

_EXIT_S = 2.0
"""How long a program may take to end once its input is closed, and again after SIGTERM."""
_FLUSH_S = 0.5
_STDERR_LINES = 20
_STDERR_S = 10.0
"""How many lines of standard error are logged in so many seconds; the others are counted."""
_STDERR_CHARS = 500
_STDERR_BYTES = 8192
"""How much of a line is logged, and read."""

_Incoming = SessionMessage | Exception
_Streams = tuple[MemoryObjectReceiveStream[_Incoming], MemoryObjectSendStream[SessionMessage]]


@asynccontextmanager
async def bounded_stdio(
    command: Sequence[str], env: Mapping[str, str], *, limit: ResponseLimit, server: str, write_s: float
) -> AsyncGenerator[_Streams]:
    """Run the program with a minimal environment; raises `OSError`.

    A line over the limit ends the connection: later lines cannot be matched to requests. So does a message
    that the program does not read within `write_s`: no other one could be sent.
    """
    process = await anyio.open_process(
        list(command), env=get_default_environment() | dict(env), start_new_session=True
    )
    reader_end, reading = anyio.create_memory_object_stream[_Incoming](0)
    writing, writer_end = anyio.create_memory_object_stream[SessionMessage](0)
    written = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, process, reader_end, limit)
        tasks.start_soon(_log_stderr, process, server)
        tasks.start_soon(_write, process, writer_end, reader_end, written, write_s)
        try:
            yield reading, writing
        finally:
            reading.close()
            writing.close()
            # The scope holds off cancellations by anyio only; `Task.cancel` interrupts what it shields.
            with anyio.CancelScope(shield=True):
                await run_to_completion(_stop(process, written))
            tasks.cancel_scope.cancel()


async def _read(process: Process, messages: MemoryObjectSendStream[_Incoming], limit: ResponseLimit) -> None:
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async with messages:
            async for line in _lines(process, limit):
                await messages.send(_parsed(line))
    if not limit.exceeded:
        await _drain(process)


async def _log_stderr(process: Process, server: str) -> None:
    """Log some of the lines that the program writes to standard error, cleaned, and keep reading."""
    assert process.stderr is not None  # noqa: S101 - a pipe by default
    stderr = _StderrLog(server)
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for chunk in process.stderr:
            stderr.add(chunk)
    stderr.report_dropped()


class _StderrLog:
    def __init__(self, server: str) -> None:
        self._server = server
        self._rest = b""
        """The beginning of a line that has not ended."""
        self._logged = self._dropped = 0
        self._since = anyio.current_time()

    def add(self, chunk: bytes) -> None:
        if anyio.current_time() - self._since >= _STDERR_S:
            self.report_dropped()
            self._logged, self._since = 0, anyio.current_time()
        *lines, rest = (self._rest + chunk).split(b"\n", _STDERR_LINES - self._logged)
        for line in lines:
            if text := one_line(line[:_STDERR_BYTES].decode(errors="replace"), _STDERR_CHARS):
                self._logged += 1
                log.info("mcp_server.stderr", server=self._server, text=text)
        # A program may write more lines than can be looked at.
        self._dropped += rest.count(b"\n")
        self._rest = rest[rest.rfind(b"\n") + 1 :][:_STDERR_BYTES]

    def report_dropped(self) -> None:
        if self._dropped:
            log.info("mcp_server.stderr_dropped", server=self._server, lines=self._dropped)
        self._dropped = 0


async def _lines(process: Process, limit: ResponseLimit) -> AsyncGenerator[bytes]:
    """Complete lines as JSON, until one is too long."""
    assert process.stdout is not None  # noqa: S101 - a pipe, as asked for
    line = bytearray()
    async for chunk in process.stdout:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            text, values = await read_json(bytes(line + end))
            if values > MAX_VALUES:
                limit.exceeded = True
                return
            yield text
            line.clear()
        line += rest
        # At most one chunk beyond the limit, for a line that ends within the chunk.
        if len(line) > limit.max_bytes:
            limit.exceeded = True
            return


async def _drain(process: Process) -> None:
    """Keep reading, so that the program does not block on output and can end; until the pipe is closed."""
    assert process.stdout is not None  # noqa: S101
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        while True:
            await process.stdout.receive()


async def _write(
    process: Process,
    messages: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[_Incoming],
    written: anyio.Event,
    write_s: float,
) -> None:
    assert process.stdin is not None  # noqa: S101
    try:
        async with messages:
            async for message in messages:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                with anyio.fail_after(write_s):
                    await process.stdin.send(f"{text}\n".encode())
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        # No more responses will arrive: let waiting requests fail.
        await incoming.aclose()
    finally:
        written.set()


def _parsed(line: bytes) -> _Incoming:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _stop(process: Process, written: anyio.Event) -> None:
    assert process.stdin is not None  # noqa: S101
    with anyio.move_on_after(_FLUSH_S):
        await written.wait()
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    await _exited(process)
    # Also if it has ended: its children may not have.
    await terminate_posix_process_tree(process, _EXIT_S)
    await _exited(process)
    with suppress(OSError, ProcessLookupError):
        await process.aclose()


async def _exited(process: Process) -> None:
    # Not `wait`: that also waits for the pipes, which a child of the program may hold open.
    with anyio.move_on_after(_EXIT_S):
        while process.returncode is None:
            await anyio.sleep(0.01)
