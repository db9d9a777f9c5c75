"""`runtally demo`: the whole system on one machine, without an API key and without network access."""

import asyncio
import signal
import socket
from decimal import Decimal
from typing import NamedTuple

from pydantic import SecretStr
from rich.console import Console

from app.auth.keys import mint_key
from app.cli.client import receipts_table, show_run
from app.cli.serve import AddressInUse, listen, served, url_of
from app.settings import Settings
from app.simulator.demo import DemoModel
from app.simulator.server import Simulator
from runtally import AsyncClient

_HOST = "127.0.0.1"
_PORT = 8000


class FirstRun(NamedTuple):
    """The run that the demo begins with."""

    graph: str
    prompt: str


async def demo(settings: Settings, console: Console, run: FirstRun, *, once: bool, port: int | None) -> None:
    """Serve with a scripted model, do one run through the HTTP API, then wait for Ctrl-C."""
    key = mint_key()
    console.rule("Runtally demo")
    console.print("The model is simulated: answers, tokens and costs are not real.", style="yellow")
    async with Simulator(DemoModel()) as simulator:
        own = settings.model_copy(
            update={
                "database_url": None,
                "redis_url": None,
                "data_dir": settings.data_dir / "demo",
                "anthropic_api_key": SecretStr("simulated"),
                "anthropic_base_url": simulator.url,
                "bootstrap_key": SecretStr(key),
                "markup": Decimal(1),
            },
        )
        with _listen(port) as sock:
            async with served(own, sock):
                async with AsyncClient(url_of(sock), key) as client:
                    await _show(client, key, console, run)
                if not once:
                    await _until_interrupted(console)


def _listen(port: int | None) -> socket.socket:
    if port is not None:
        return listen(_HOST, port)
    try:
        return listen(_HOST, _PORT)
    except AddressInUse:
        return listen(_HOST, 0)


async def _show(client: AsyncClient, key: str, console: Console, run: FirstRun) -> None:
    console.print(f"URL      {client.url}")
    console.print(f"API key  {key}", soft_wrap=True)
    console.print(f"\nPOST /v1/runs/stream  {run.graph}  {run.prompt!r}\n", style="bold", markup=False)
    run_id = await show_run(client, console, run.graph, run.prompt)
    console.print(f"GET /v1/runs/{run_id}/receipts\n", style="bold")
    console.print(receipts_table(await client.run_receipts(run_id)))


async def _until_interrupted(console: Console) -> None:
    console.print("\nServing until Ctrl-C. Open the URL in a browser and sign in with the key.")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
    console.print("Stopping.")
