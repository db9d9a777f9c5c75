"""The bundled CLI in a folder and an environment of its own, in front of a scripted model."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Message, ResultMessage

from app.executors.claude_agent.process.cli import bundled_cli
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.process.environment import cli_environment, launcher
from app.models.registry import ModelOptions

PATIENCE_S = 60.0
NOBODY_LISTENS = "http://127.0.0.1:9"


@contextmanager
def a_folder() -> Iterator[RunDirectory]:
    """A run's folder, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="rehearsal-", ignore_cleanup_errors=True) as name:
        yield RunDirectory(Path(name))


def a_launcher(run: RunDirectory, url: str, program: Path | None = None) -> Path:
    """The program that starts the CLI as the executor does: with our variables and no others."""
    environment = cli_environment(
        token="t", base_url=url, directory=run.path, longest_tool_s=30, options=ModelOptions()
    )
    return run.write_launcher(launcher(program or bundled_cli(), environment, pid_file=run.pid_file))


@asynccontextmanager
async def a_lean_client(url: str, stderr: list[str]) -> AsyncIterator[ClaudeSDKClient]:
    """A client of the SDK with a CLI in its lean mode, whose standard error is kept."""
    with a_folder() as run:
        options = ClaudeAgentOptions(
            system_prompt="p",
            thinking={"type": "disabled"},
            tools=[],
            strict_mcp_config=True,
            setting_sources=[],
            cli_path=a_launcher(run, url),
            cwd=run.work,
            stderr=stderr.append,
            extra_args={"bare": None},
        )
        async with ClaudeSDKClient(options) as client:
            yield client


async def asked(client: ClaudeSDKClient, prompt: str = "go") -> list[Message]:
    """Every message of the SDK from a prompt to its result."""
    found: list[Message] = []
    await client.query(prompt)
    async with asyncio.timeout(PATIENCE_S):
        async for message in client.receive_messages():
            found.append(message)
            if isinstance(message, ResultMessage):
                break
    return found


def result_of(messages: list[Message]) -> ResultMessage:
    """The result, which comes last."""
    last = messages[-1]
    if not isinstance(last, ResultMessage):
        raise TypeError(last)
    return last
