"""The executor of the Messages API over a scripted provider: everything real but the database."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from app.conversations.prompt_store import PromptStore
from app.conversations.transcript_store import TranscriptStore
from app.executors.messages_api.client import MessagesClient
from app.executors.messages_api.executor import MessagesExecutor
from app.gateway.proxy import Gateway
from app.gateway.upstream import Upstream
from app.platform.db import Database
from app.platform.json_schema.checker import SchemaChecker
from app.simulator.script import Answer, ApiRequest, Hold, Reply, Responder, Text, ToolUse
from app.simulator.server import Simulator
from app.tools.mcp.servers import McpConnector
from tests.scripted import Action, CallTool, TakeMessage, WaitFor, WriteMessage
from tests.unit.executors.claude_agent.an_executor import OwnMetering

NO_DATABASE: Any = None
"""For runs without a conversation."""


@asynccontextmanager
async def a_messages_executor(
    responder: Responder, *, database: Database = NO_DATABASE
) -> AsyncIterator[tuple[MessagesExecutor, Simulator]]:
    """An executor and its provider."""
    async with (
        Simulator(responder) as simulator,
        an_executor_over(simulator.url, database=database) as executor,
    ):
        yield executor, simulator


@asynccontextmanager
async def an_executor_over(
    provider_url: str, *, database: Database = NO_DATABASE
) -> AsyncIterator[MessagesExecutor]:
    """An executor that calls this provider."""
    async with (
        Upstream(base_url=provider_url, api_key="simulated") as provider,
        Gateway(provider) as gateway,
        MessagesClient(gateway.handle) as client,
        SchemaChecker(workers=1, check_s=1) as schemas,
    ):
        yield MessagesExecutor(
            gateway=gateway,
            client=client,
            metering=OwnMetering(expected="messages_api"),
            store=TranscriptStore(database),
            prompts=PromptStore(database),
            servers=McpConnector({}, schemas),
            schemas=schemas,
            cache_ttl="5m",
        )


def playing(actions: Sequence[Action]) -> Responder:
    """The provider's side of the same actions."""
    remaining = list(actions)

    async def respond(_request: ApiRequest) -> Answer:
        while remaining:
            match remaining.pop(0):
                case WriteMessage(text=text):
                    words = Text(text)
                    match remaining:
                        case [WaitFor(until=until), *_]:
                            # Before the last event, after the last numbers.
                            return Reply([words], hold=Hold(5 + len(words.pieces), until))
                        case _:
                            return Reply([words])
                case CallTool(tool_id=tool_id, args=args):
                    return Reply([ToolUse(tool_id, dict(args))])
                case WaitFor(until=until):
                    await until.wait()
                case TakeMessage():
                    pass
                case other:
                    raise AssertionError(other)
        await asyncio.Event().wait()
        raise AssertionError

    return respond
