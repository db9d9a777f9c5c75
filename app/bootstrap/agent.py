"""Opens the executors and the parts they depend on."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from app.bootstrap.messages import open_messages
from app.clock.clock import Clock
from app.conversations.message_store import MessageStore
from app.conversations.prompt_store import PromptStore
from app.conversations.sdk_store import PostgresSessionStore
from app.executors.claude_agent.auth import GatewayAuth, LoginAuth, ModelAuth
from app.executors.claude_agent.executor import ClaudeAgentExecutor
from app.executors.claude_agent.graph_keys import PROVIDER
from app.executors.claude_agent.launching.launcher import CliLauncher
from app.executors.claude_agent.process.cli import Cli, bundled_cli
from app.executors.claude_agent.process.directory import server_directory
from app.executors.claude_agent.process.environment import Login
from app.executors.claude_agent.sandbox.control_groups import ControlGroups
from app.executors.claude_agent.sandbox.probe import SandboxProbe
from app.executors.claude_agent.starter import CliStarter
from app.executors.metering import Metering
from app.executors.port import GraphExecutor
from app.gateway.proxy import Gateway
from app.gateway.upstream import Upstream
from app.graphs.spec import GraphSpec
from app.ids import AccountId, ApiKeyId, RunId, RunKey
from app.json_schema.checker import SchemaChecker
from app.requests import GraphRunRequest, Message
from app.runs.planner import RunPlanner
from app.settings import Settings
from app.tools.mcp_servers import McpConnector
from app.workspaces.service import Workspaces


@dataclass(frozen=True, slots=True)
class Agent:
    """The executors and the parts they depend on."""

    executor: ClaudeAgentExecutor
    executors: Mapping[str, GraphExecutor]
    """All, by the provider in graph ids."""
    auth: ModelAuth
    starter: CliStarter
    sandbox_probe: SandboxProbe


@asynccontextmanager
async def open_agent(
    settings: Settings,
    metering: Metering,
    sessions: PostgresSessionStore,
    *,
    store: MessageStore,
    prompts: PromptStore,
    workspaces: Workspaces,
    schemas: SchemaChecker,
    cli: Cli | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Agent]:
    """Open the executors while the body runs; `store` has the conversations of `messages`."""
    cli = cli or Cli(bundled_cli())
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(server_directory(settings.data_dir.absolute() / "runs"))
        auth = await stack.enter_async_context(open_auth(settings, cli, directory, clock=clock))
        sandbox_probe = SandboxProbe(behind_gateway=auth.login is None)
        starter = CliStarter(
            CliLauncher(cli, directory, auth, sessions),
            idle_processes=settings.idle_processes,
            max_idle_s=settings.idle_process_minutes * 60,
        )
        stack.push_async_callback(starter.aclose)
        executor = ClaudeAgentExecutor(
            auth=auth,
            metering=metering,
            starter=starter,
            prompts=prompts,
            servers=McpConnector(settings.mcp_secrets, schemas),
            workspaces=workspaces,
            sandbox_probe=sandbox_probe,
            schemas=schemas,
            groups=await asyncio.to_thread(ControlGroups.delegated),
        )
        messages = await stack.enter_async_context(
            open_messages(settings, auth, metering, store=store, prompts=prompts, schemas=schemas)
        )
        yield Agent(executor, {PROVIDER: executor, **messages}, auth, starter, sandbox_probe)


@asynccontextmanager
async def open_auth(
    settings: Settings, cli: Cli, directory: Path, *, clock: Clock | None = None
) -> AsyncIterator[ModelAuth]:
    """How the CLI authenticates at its model, chosen by RUNTALLY_CLAUDE_AUTH."""
    if settings.claude_auth == "local_session":
        yield LoginAuth(cli, Login.of(settings.claude_config_dir), directory)
        return
    key = settings.anthropic_api_key
    async with (
        Upstream(
            base_url=settings.anthropic_base_url,
            api_key=None if key is None else key.get_secret_value(),
            clock=clock,
        ) as provider,
        Gateway(provider) as gateway,
    ):
        yield GatewayAuth(provider, gateway, prompt_cache_ttl=settings.prompt_cache_ttl)


def open_schema_checker(settings: Settings) -> SchemaChecker:
    """The checker of untrusted JSON schemas; its processes start on demand."""
    return SchemaChecker(workers=settings.schema_workers, check_s=settings.schema_check_s)


def warm_up(starter: CliStarter, planner: RunPlanner) -> None:
    """Start processes in advance for a simple run of the first graphs; later ones follow demand."""
    no_run = RunKey(AccountId(UUID(int=0)), RunId("none"))
    for graph in _first_graphs(planner, starter.pool.most_ready):
        hello = Message.of(role="user", content="hello")
        request = GraphRunRequest.of(graph_id=graph.id, messages=[hello])
        key = ApiKeyId(UUID(int=0))
        starter.warm_up(planner.plan(no_run, request, api_key_id=key, request_id=None))


def _first_graphs(planner: RunPlanner, count: int) -> list[GraphSpec]:
    return [graph for graph in planner.graphs.all() if graph.provider == PROVIDER][:count]
