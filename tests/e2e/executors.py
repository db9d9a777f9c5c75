"""Each executor behind the whole app, playing the same messages."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from app.executors.claude_agent.tools.names import bridged_name
from app.executors.scripted import Action, CallTool, TakeMessage, WriteMessage
from app.simulator.script import Hold, Reply, Text, ToolUse, in_turn
from tests import factories
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import World, a_world

OpenExecutor: TypeAlias = Callable[..., AbstractAsyncContextManager[World]]


@asynccontextmanager
async def scripted(
    directory: Path, database_url: str, *actions: Action, **settings: Any
) -> AsyncIterator[World]:
    """`ScriptedExecutor`."""
    executors = factories.scripted(*actions)
    async with a_world(directory, database_url, in_turn(), executors=executors, **settings) as world:
        yield world


@asynccontextmanager
async def claude(
    directory: Path, database_url: str, *actions: Action, **settings: Any
) -> AsyncIterator[World]:
    """`ClaudeAgentExecutor` with the real CLI; the scripted provider sends the messages."""
    replies = in_turn(*(_reply(action) for action in actions if not isinstance(action, TakeMessage)))
    async with a_world(directory, database_url, replies, **settings) as world:
        yield world


@asynccontextmanager
async def messages(
    directory: Path, database_url: str, *actions: Action, **settings: Any
) -> AsyncIterator[World]:
    """`MessagesExecutor`; the scripted provider sends the messages."""
    replies = in_turn(*(_reply(action) for action in actions if not isinstance(action, TakeMessage)))
    async with a_world(directory, database_url, replies, agent=MESSAGES, **settings) as world:
        yield world


EXECUTORS = {"scripted": scripted, "claude": claude, "messages": messages}


def _reply(action: Action) -> Reply:
    match action:
        case CallTool(tool_id=tool_id, args=args):
            return Reply([ToolUse(bridged_name(tool_id), dict(args))])
        case WriteMessage(text=text, usage=usage, before_end=wait):
            words = Text(text)
            return Reply(
                [words],
                usage={"input_tokens": usage.input_tokens, "output_tokens": 1},
                final_usage={"output_tokens": usage.output_tokens},
                # After message_start, the start of the text block and its deltas.
                hold=wait and Hold(2 + len(words.pieces), wait.until, wait.reached or asyncio.Event()),
            )
        case _:
            error = f"a provider cannot send {action}"
            raise TypeError(error)
