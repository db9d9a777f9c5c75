"""The demo from its start to its end."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from app.auth.keys import mint_key
from app.cli.addresses import AddressInUse, listen, url_of
from app.cli.demo.model import TourModel
from app.cli.demo.scenes import Scenes
from app.cli.demo.screen import Screen
from app.cli.demo.server import DemoServer
from app.platform.background import first_of
from app.platform.settings import Settings
from app.simulator.server import Simulator
from runtally import AsyncClient

_HOST = "127.0.0.1"
_PORT = 8000


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What is shown, and how it ends."""

    once: bool
    port: int | None
    """None: 8000 if it is free."""
    picture: Path | None
    """The SVG file that the console's recorded output is written to."""
    graph: str | None
    """The only graph that is shown; None: all scenes, on the shipped one and those of the demo."""
    prompt: str


async def demo(settings: Settings, console: Console, shown: DemoOptions) -> None:
    """Serve with a scripted model, show what the server does, then wait for Ctrl-C."""
    key, directory = mint_key(), (settings.data_dir / "demo").absolute()
    directory.mkdir(parents=True, exist_ok=True)
    console.rule("Runtally demo")
    console.print("The model is simulated: answers, tokens and costs are not real.", style="yellow")
    async with Simulator(TourModel()) as simulator:
        with _listen(shown.port) as sock:
            options = {"directory": str(directory), "model_url": simulator.url, "api_key": key}
            async with _serving(DemoServer(sock, options, directory / "server.log")) as server:
                console.print(f"URL      {url_of(sock)}")
                console.print(f"API key  {key}", soft_wrap=True)
                console.print(f"Log      {_shown(server.log)}", soft_wrap=True)
                async with AsyncClient(url_of(sock), key) as client:
                    scenes = Scenes(client, Screen(console), server, simulator)
                    await first_of(scenes.play(shown.graph, shown.prompt), server.wait_ended())
                if shown.picture is not None:
                    _draw(console, shown.picture, key=key)
                if not shown.once:
                    await _until_interrupted(console, server)


def _listen(port: int | None) -> socket.socket:
    if port is not None:
        return listen(_HOST, port)
    try:
        return listen(_HOST, _PORT)
    except AddressInUse:
        return listen(_HOST, 0)


@asynccontextmanager
async def _serving(server: DemoServer) -> AsyncIterator[DemoServer]:
    server.log.unlink(missing_ok=True)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def _draw(console: Console, picture: Path, *, key: str) -> None:
    """Write the picture without the key: it is of no use later, but programs that search for keys find it."""
    hidden = f"rt_{'…' * (len(key) - 3)}"
    picture.write_text(console.export_svg(title="runtally demo").replace(key, hidden), encoding="utf-8")


def _shown(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


async def _until_interrupted(console: Console, server: DemoServer) -> None:
    console.print("\nServing until Ctrl-C. Open the URL in a browser and sign in with the key.")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await first_of(stop.wait(), server.wait_ended())
    console.print("Stopping.")
