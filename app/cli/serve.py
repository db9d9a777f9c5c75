"""`runtally serve`, `api` and `worker`: serve HTTP until they receive a signal."""

import asyncio
import gc
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import FrameType
from typing import TYPE_CHECKING, cast

import structlog
import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from app import __version__
from app.bootstrap.roles import Role
from app.bootstrap.services import Services, open_services
from app.cli.addresses import BACKLOG, listen, listen_for_scrapes, url_of
from app.executors.claude_agent.process.cli import Cli
from app.executors.port import GraphExecutor
from app.http.api.metrics.port import PATH, metrics_app
from app.http.app import ERROR_FORMS, create_app
from app.http.streaming.closing import OpenStreams
from app.platform.background import first_of
from app.platform.metrics.exposition import Neighbours
from app.platform.postgres.errors import target_of
from app.platform.server.loopback import serve_on_socket
from app.platform.server.protocol import ConnectionLimits, ConnectionTable, raise_open_files
from app.platform.settings import Settings
from app.streams.relay.address import RelayAddress

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

log = structlog.get_logger(__name__)

_HANG_UP_S = 5
"""How long connections may stay open after all runs have ended."""

_CLOSE_TICK_S = 0.005
_ACCEPTED_AT_ONCE = 64
_KEEP_ALIVE_S = 30
_OWN_FILES = 128
_FILES_PER_RUN = 48
"""File descriptors not available for connections: databases, journals, agent processes."""


_SCRAPERS = 256
"""Connections to the metrics port at the same time."""
_NAMES_SHOWN = 20
"""Of graphs, when the server starts."""


class _Server(uvicorn.Server):
    """Stops in order: no new runs, then active runs to their end, then the connections."""

    def __init__(self, services: Services) -> None:
        self._app = app = create_app(services, is_proxy=self._is_proxy)
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=_ACCEPTED_AT_ONCE,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_HANG_UP_S,
        )
        self._proxies = ProxyHeadersMiddleware(cast("ASGI3Application", app), config.forwarded_allow_ips)
        table = ConnectionTable(_limits(services.settings, is_proxy=self._is_proxy), ERROR_FORMS.refusal)
        services.metrics.add_gauge("connections", "Open connections of clients.", lambda: len(table))
        # uvicorn accepts any factory of a protocol, but its type is that of a class.
        config.http = cast("type[asyncio.Protocol]", table.protocol)
        super().__init__(config)
        self._services = services
        self._loop = asyncio.get_running_loop()
        self._draining: asyncio.Task[None] | None = None
        self._signals = 0
        self._drained = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. A small accept batch closes refused connections soon; the backlog is long."""
        await super().startup(sockets)
        for sock in sockets or ():
            sock.listen(BACKLOG)

    async def main_loop(self) -> None:
        """Serve until drained; uvicorn's own loop would notice that 0.1 s later."""
        await first_of(super().main_loop(), self._drained.wait())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening and close the connections; uvicorn's own would always pause for 0.1 s."""
        await first_of(super().shutdown(sockets), self._wait_for_connections())

    async def _wait_for_connections(self) -> None:
        while self.server_state.connections or self.server_state.tasks:
            await asyncio.sleep(_CLOSE_TICK_S)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal; at the second, wait no longer for runs; then for nothing."""
        self._signals += 1
        if self._signals == 1:
            # Deferred to the event loop: the signal may have interrupted the logging of a line.
            self._loop.call_soon_threadsafe(self._stop)
        elif self._signals == 2:  # noqa: PLR2004 - the second
            self._loop.call_soon_threadsafe(self._services.drain.hurry)
        else:
            super().handle_exit(sig, frame)

    def drain(self) -> None:
        """Stop after every run has ended."""
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())

    def _stop(self) -> None:
        log.info("server.stopping", within_s=self._services.settings.drain_s)
        self.drain()

    def _is_proxy(self, address: str) -> bool:
        return address in self._proxies.trusted_hosts

    async def _drain(self) -> None:
        await self._services.drain.drain(within_s=self._services.settings.drain_s)
        streams: OpenStreams = self._app.state.open_streams
        await streams.close()
        self.should_exit = True
        self._drained.set()


def _limits(settings: Settings, is_proxy: Callable[[str], bool]) -> ConnectionLimits:
    for_others = _OWN_FILES + _FILES_PER_RUN * settings.max_concurrent_runs
    return ConnectionLimits(
        connections=max(_ACCEPTED_AT_ONCE, min(settings.max_connections, raise_open_files() - for_others)),
        per_address=settings.max_connections_per_address,
        header_timeout_s=settings.header_timeout_s,
        write_timeout_s=settings.write_timeout_s,
        is_proxy=is_proxy,
    )


@asynccontextmanager
async def _metrics_served(services: Services, sock: socket.socket | None) -> AsyncIterator[None]:
    """Serve the metrics port while the body runs: until the runs and connections of the API have ended."""
    if sock is None:
        yield
        return
    app = metrics_app(services.exposition)
    async with serve_on_socket(app, sock, connections=_SCRAPERS):
        log.info("metrics.listening", url=f"{url_of(sock)}{PATH}")
        yield


async def serve(settings: Settings, *, role: Role, host: str, port: int) -> None:
    """Serve until a signal arrives, even during startup."""
    with listen(host, port) as sock, listen_for_scrapes(settings, host) as scrapes:
        await serve_on(settings, sock, scrapes, role=role)


async def serve_on(
    settings: Settings,
    sock: socket.socket,
    scrapes: socket.socket | None,
    *,
    role: Role = Role.SERVE,
    neighbours: Neighbours | None = None,
    when_up: Callable[[], object] = lambda: None,
) -> None:
    """Serve on the sockets of the API and of the metrics until a signal arrives, even during startup.

    `neighbours`: see `open_services`. `when_up` is called when nothing can prevent the start any more.
    """
    loop, starting, is_up = asyncio.get_running_loop(), asyncio.current_task(), False
    if starting is not None:
        # Until the server listens and handles signals itself.
        signal.signal(signal.SIGTERM, lambda *_: loop.call_soon_threadsafe(starting.cancel))
    try:
        async with (
            open_services(settings, role=role, neighbours=neighbours) as services,
            _metrics_served(services, scrapes),
        ):
            server = _Server(services)
            # Exempt all current objects from garbage collection: scanning them takes 0.17 s.
            gc.freeze()
            _log_start(services, url_of(sock))
            is_up = True
            when_up()
            await server.serve(sockets=[sock])
    except asyncio.CancelledError:
        # A second signal while it stops ends up here as well.
        if not is_up:
            log.info("server.stopped_before_start")


def _log_start(services: Services, url: str) -> None:
    settings, graphs = services.settings, [graph.name for graph in services.graphs.definitions()]
    log.info(
        "server.started",
        version=__version__,
        role=services.role.value,
        url=url,
        graphs=len(graphs),
        graph_names=graphs[:_NAMES_SHOWN],
        tools=len(services.tools.ids()),
        database="embedded" if settings.database_url is None else target_of(settings.database_url),
        relay=None if settings.redis_url is None else str(RelayAddress.parse(settings.redis_url)),
        data_dir=settings.data_dir.name,
    )


@asynccontextmanager
async def served(
    settings: Settings,
    sock: socket.socket,
    *,
    role: Role = Role.SERVE,
    cli: Cli | None = None,
    executors: Mapping[str, GraphExecutor] | None = None,
) -> AsyncIterator[Services]:
    """Serve while the body runs. `cli` and `executors`: see `open_services`."""
    with listen_for_scrapes(settings, sock.getsockname()[0]) as scrapes:
        async with (
            open_services(settings, role=role, cli=cli, executors=executors) as services,
            _metrics_served(services, scrapes),
        ):
            server = _Server(services)
            task = asyncio.create_task(server.serve(sockets=[sock]))
            try:
                while not (server.started or task.done()):
                    await asyncio.sleep(0.01)
                yield services
            finally:
                server.drain()
                await task
