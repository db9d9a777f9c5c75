"""The reverse proxies of deploy/proxies with these files, in front of a server that can be restarted."""

import asyncio
import os
import socket
import ssl
from asyncio.subprocess import STDOUT, Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from app.cli.addresses import listen
from app.cli.serve import served
from app.platform.embedded.ports import free_port
from app.platform.settings import Settings
from tests.architecture.tree import ROOT
from tests.authority import Authority
from tests.e2e.stories import KEY, until
from tests.patience import PATIENCE_S

HOST = "localhost"
NGINX_MAIN = """
daemon off;
pid {directory}/nginx.pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    include {file};
}}
"""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a proxy listens, and where its server does."""

    plain: int
    tls: int
    server: int


def _nginx(file: Path) -> Sequence[str]:
    main = file.parent / "main.conf"
    main.write_text(NGINX_MAIN.format(directory=file.parent, file=file))
    return "nginx", "-e", "stderr", "-c", str(main)


@dataclass(frozen=True, slots=True)
class Program:
    """A proxy: its file, what is replaced in it for the test, and how it is started."""

    file: str
    replaced: Callable[[Ports], Mapping[str, str]]
    """Besides the address of the server, the certificate and, where it occurs, the name."""
    command: Callable[[Path], Sequence[str]]


PROXIES = {
    "nginx": Program(
        "nginx.conf",
        lambda ports: {"listen 80;": f"listen {ports.plain};", "listen 443 ": f"listen {ports.tls} "},
        _nginx,
    ),
    "haproxy": Program(
        "haproxy.cfg",
        lambda ports: {"bind :80\n": f"bind :{ports.plain}\n", "bind :443 ": f"bind :{ports.tls} "},
        lambda file: ("haproxy", "-db", "-f", str(file)),
    ),
    "caddy": Program(
        "Caddyfile",
        lambda ports: {
            "admin localhost:2019": f"admin off\n\thttp_port {ports.plain}\n\thttps_port {ports.tls}"
        },
        lambda file: ("caddy", "run", "--config", str(file), "--adapter", "caddyfile"),
    ),
}


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running proxy."""

    ports: Ports
    authority: Path

    def client(self, key: str = KEY, *, address: str = "127.0.0.1", http2: bool = True) -> httpx.AsyncClient:
        """A client at this address."""
        return httpx.AsyncClient(
            base_url=f"https://{HOST}:{self.ports.tls}",
            headers={"Authorization": f"Bearer {key}"},
            timeout=PATIENCE_S,
            transport=httpx.AsyncHTTPTransport(
                verify=ssl.create_default_context(cafile=self.authority), http2=http2, local_address=address
            ),
        )


@asynccontextmanager
async def a_proxy(name: str, directory: Path, server_port: int) -> AsyncIterator[Proxy]:
    """Run this proxy with its file."""
    plain, tls = free_port(), free_port()
    ports, authority = Ports(plain, tls, server_port), Authority(directory)
    file = directory / PROXIES[name].file
    file.write_text(_configuration(PROXIES[name], ports, authority.certificate(HOST)))
    with (directory / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *PROXIES[name].command(file),
            cwd=directory,
            env={"PATH": os.environ["PATH"], "HOME": str(directory), "XDG_DATA_HOME": str(directory)},
            stdout=log,
            stderr=STDOUT,
        )
    try:
        await until(lambda: process.returncode is not None or listens(tls))
        assert process.returncode is None, (directory / "log").read_text()
        yield Proxy(ports, authority.file)
    finally:
        await _ended(process)


def _configuration(program: Program, ports: Ports, certificate: Path) -> str:
    text = (ROOT / "deploy" / "proxies" / program.file).read_text("utf-8")
    replaced = {
        "127.0.0.1:8000": f"127.0.0.1:{ports.server}",
        "/etc/ssl/private/runtally.pem": str(certificate),
        **program.replaced(ports),
    }
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, new)
    return text.replace("runtally.example.org", HOST)


def listens(port: int) -> bool:
    """Whether something does."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def _ended(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
    async with asyncio.timeout(PATIENCE_S):
        await process.wait()


@dataclass(slots=True)
class Restartable:
    """A server on one port that can be stopped and started again."""

    settings: Settings
    port: int
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return once it serves."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._serving = asyncio.create_task(self._serve(ready))
        await asyncio.wait([ready, self._serving], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            await self._serving

    async def stop(self) -> None:
        """Return once it has ended."""
        if self._serving is not None:
            self._stop.set()
            await self._serving
            self._serving = None

    async def _serve(self, ready: asyncio.Future[None]) -> None:
        with listen("127.0.0.1", self.port) as sock:
            async with served(self.settings, sock):
                ready.set_result(None)
                await self._stop.wait()
