"""The model of a benchmark: answers by script, in a process of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any, Literal, TypeAlias

import psutil

from app.simulator.demo import DemoModel
from app.simulator.script import ApiRequest, Hold, Reply
from app.simulator.server import Simulator
from benchmarks.processes import a_process_of

WAIT = "Wait."
"""The answer to a prompt that contains this begins at once and ends when the model is released."""

_FIRST_WORDS = 4
"""The number of events before it waits: the start of message and text block, a ping or a word, a word."""

Command: TypeAlias = Literal["release", "forget", "sent"]
Sent: TypeAlias = dict[str, tuple[int, int]]
"""By message id: input and output tokens, as the provider has counted them."""


@dataclass(slots=True)
class _Script:
    demo: DemoModel = field(default_factory=lambda: DemoModel(word_delay_s=0))
    hold: Hold = field(default_factory=lambda: Hold(_FIRST_WORDS))

    def __call__(self, request: ApiRequest) -> Reply:
        """See `Responder`."""
        reply = self.demo(request)
        return replace(reply, hold=self.hold) if WAIT in request.last_text else reply


@dataclass(frozen=True, slots=True)
class ScriptedModel:
    """A running model."""

    url: str
    process: psutil.Process
    _commands: Connection

    async def release(self) -> None:
        """End the answers that wait, and those to come at once."""
        await self._command("release")

    async def forget(self) -> None:
        """Forget what was sent: it is not needed, and would grow."""
        await self._command("forget")

    async def sent(self) -> Sent:
        """Every message that was sent to its end since the last `forget`."""
        sent: Sent = await self._command("sent")
        return sent

    async def _command(self, command: Command) -> Any:
        self._commands.send(command)
        return await asyncio.to_thread(self._commands.recv)


@asynccontextmanager
async def scripted_model() -> AsyncIterator[ScriptedModel]:
    """Start it."""
    async with a_process_of(_run) as (process, commands):
        yield ScriptedModel(await asyncio.to_thread(commands.recv), process, commands)


def _run(commands: Connection) -> None:
    asyncio.run(_serve(commands))


async def _serve(commands: Connection) -> None:
    script = _Script()
    async with Simulator(script) as simulator:

        def execute() -> None:
            commands.send(_executed(commands.recv(), simulator, script))

        asyncio.get_running_loop().add_reader(commands.fileno(), execute)
        commands.send(simulator.url)
        await asyncio.Event().wait()


def _executed(command: Command, simulator: Simulator, script: _Script) -> Any:
    match command:
        case "release":
            script.hold.until.set()
        case "forget":
            simulator.sent.clear()
            simulator.requests.clear()
        case "sent":
            return {
                message.message_id: (
                    message.final_usage["input_tokens"],
                    message.final_usage["output_tokens"],
                )
                for message in simulator.sent
                if message.final_usage is not None
            }
    return None
