"""Opens the executors and the parts they depend on."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from app.conversations.history import ConversationHistory
from app.conversations.prompt_store import PromptStore
from app.conversations.transcript_store import TranscriptStore
from app.executors.claude_agent.auth import GatewayAuth, LoginAuth, ModelAuth
from app.executors.claude_agent.executor import ClaudeAgentExecutor
from app.executors.claude_agent.graph_keys import PROVIDER
from app.executors.claude_agent.launching.launcher import CliLauncher
from app.executors.claude_agent.previewer import ClaudeAgentPreviewer
from app.executors.claude_agent.process.cli import Cli, bundled_cli
from app.executors.claude_agent.process.directory import SERVER_NAMES, server_directory
from app.executors.claude_agent.process.environment import Login
from app.executors.claude_agent.sandbox.control_groups import ControlGroups
from app.executors.claude_agent.sandbox.probe import SandboxProbe
from app.executors.claude_agent.sandbox.sandboxes import BubblewrapSandboxes
from app.executors.claude_agent.starter import CliStarter
from app.executors.claude_agent.tools.names import tool_id_of
from app.executors.external.executor import PROVIDER as EXTERNAL
from app.executors.external.executor import ExternalExecutor
from app.executors.messages_api import graph_keys as messages_api
from app.executors.messages_api.client import MessagesClient
from app.executors.messages_api.executor import MessagesExecutor
from app.executors.messages_api.previewer import MessagesPreviewer
from app.executors.metering import Metering
from app.executors.port import GraphExecutor, GraphPreviewer
from app.gateway.bodies import HiddenDirectory
from app.gateway.proxy import Gateway
from app.gateway.upstream import Upstream
from app.graphs.spec import GraphSpec
from app.ids import AccountId, ApiKeyId, RunId, RunKey
from app.platform.clock.clock import Clock
from app.platform.db import Database
from app.platform.json_schema.checker import SchemaChecker
from app.platform.metrics.egress import EgressMetrics
from app.platform.metrics.gateway import GatewayMetrics
from app.platform.server.disk import Disk
from app.platform.settings import Settings
from app.platform.ssrf_guard import AddressPolicy
from app.requests.client_tools import shown_name
from app.requests.messages import Message
from app.requests.run_request import GraphRunRequest
from app.runs.planner import RunPlanner
from app.tools.mcp.oauth.service import McpLogins
from app.tools.mcp.servers import McpConnector
from app.workspaces.egress.proxy import Egress
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
    external: ExternalExecutor | None
    """None with the machine's own login, which has no gateway."""

    @property
    def disk(self) -> Disk:
        return self.starter.launcher.disk


@asynccontextmanager
async def open_agent(
    settings: Settings,
    metering: Metering,
    sessions: TranscriptStore,
    *,
    database: Database,
    workspaces: Workspaces,
    schemas: SchemaChecker,
    cli: Cli | None = None,
    clock: Clock | None = None,
    metrics: GatewayMetrics | None = None,
    egress: EgressMetrics | None = None,
) -> AsyncIterator[Agent]:
    """Open the executors while the body runs."""
    cli, prompts = cli or Cli(bundled_cli()), PromptStore(database)
    servers = open_connector(settings, database, schemas)
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(server_directory(settings.data_dir.absolute() / "runs"))
        auth = await stack.enter_async_context(
            open_auth(settings, cli, directory, clock=clock, metrics=metrics)
        )
        sandbox_probe = SandboxProbe(behind_gateway=auth.login is None)
        starter = CliStarter(
            CliLauncher(cli, Disk(directory), auth, sessions),
            idle_processes=settings.idle_processes,
            max_idle_s=settings.idle_process_minutes * 60,
        )
        stack.push_async_callback(starter.aclose)
        addresses = AddressPolicy(allow_private=settings.egress_allow_private)
        executor = ClaudeAgentExecutor(
            auth=auth,
            metering=metering,
            starter=starter,
            prompts=prompts,
            servers=servers,
            workspaces=workspaces,
            sandboxes=BubblewrapSandboxes(
                sandbox_probe,
                await asyncio.to_thread(ControlGroups.delegated),
                Egress(await stack.enter_async_context(addresses), settings.network, egress),
            ),
            schemas=schemas,
        )
        messages = await stack.enter_async_context(
            _open_messages(
                settings,
                auth,
                metering,
                store=sessions,
                prompts=prompts,
                servers=servers,
                schemas=schemas,
            )
        )
        executors: dict[str, GraphExecutor] = {PROVIDER: executor, **messages}
        external = None
        if isinstance(auth, GatewayAuth):
            external = ExternalExecutor(auth.gateway, metering, settings.external_idle_s)
            executors[EXTERNAL] = external
        yield Agent(executor, executors, auth, starter, sandbox_probe, external)


def open_connector(settings: Settings, database: Database | None, schemas: SchemaChecker) -> McpConnector:
    """What connects runs to external MCP servers; without a database there are no logins at them."""
    key = settings.mcp_token_key
    logins = None if key is None or database is None else McpLogins(database, key)
    return McpConnector(settings.mcp_secrets, schemas, logins, network=settings.network)


def open_history(sessions: TranscriptStore) -> ConversationHistory:
    """The history of conversations, whichever executor writes them."""
    return ConversationHistory(sessions, tool_id_of=lambda name: shown_name(tool_id_of(name)))


@asynccontextmanager
async def _open_messages(
    settings: Settings,
    auth: ModelAuth,
    metering: Metering,
    *,
    store: TranscriptStore,
    prompts: PromptStore,
    servers: McpConnector,
    schemas: SchemaChecker,
) -> AsyncIterator[Mapping[str, GraphExecutor]]:
    """The executor of `messages` while the body runs; none without a gateway, with the machine's login."""
    if not isinstance(auth, GatewayAuth):
        yield {}
        return
    async with MessagesClient(auth.gateway.handle) as client:
        executor = MessagesExecutor(
            gateway=auth.gateway,
            client=client,
            metering=metering,
            store=store,
            prompts=prompts,
            servers=servers,
            schemas=schemas,
            cache_ttl=settings.prompt_cache_ttl,
        )
        yield {messages_api.PROVIDER: executor}


def open_previewers(settings: Settings) -> Mapping[str, GraphPreviewer]:
    """The previewers of the executors that a worker with these settings has."""
    if settings.claude_auth == "local_session":
        return {PROVIDER: ClaudeAgentPreviewer(needs_full_mode=LoginAuth.needs_full_mode)}
    return {
        PROVIDER: ClaudeAgentPreviewer(needs_full_mode=GatewayAuth.needs_full_mode),
        messages_api.PROVIDER: MessagesPreviewer(settings.prompt_cache_ttl),
    }


@asynccontextmanager
async def open_auth(
    settings: Settings,
    cli: Cli,
    directory: Path,
    *,
    clock: Clock | None = None,
    metrics: GatewayMetrics | None = None,
) -> AsyncIterator[ModelAuth]:
    """How the CLI authenticates at its model, chosen by RUNTALLY_CLAUDE_AUTH."""
    if settings.claude_auth == "local_session":
        yield LoginAuth(cli, Login.of(settings.claude_config_dir), directory)
        return
    key = settings.anthropic_api_key
    # That of all servers on this machine: another one may have begun a conversation.
    hidden = HiddenDirectory(directory.parent, entries=SERVER_NAMES)
    async with (
        Upstream(
            base_url=settings.anthropic_base_url,
            api_key=None if key is None else key.get_secret_value(),
            clock=clock,
            network=settings.provider_network,
        ) as provider,
        Gateway(provider, metrics, hidden=hidden) as gateway,
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
