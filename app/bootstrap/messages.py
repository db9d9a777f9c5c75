"""Opens the executor of the Messages API."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from app.conversations.history import ConversationHistory
from app.conversations.message_store import MessageStore
from app.conversations.prompt_store import PromptStore
from app.conversations.sdk_store import PostgresSessionStore
from app.db import Database
from app.executors.claude_agent import graph_keys as claude_agents
from app.executors.claude_agent.auth import GatewayAuth, ModelAuth
from app.executors.claude_agent.tools.names import tool_id_of
from app.executors.messages_api.client import MessagesClient
from app.executors.messages_api.executor import MessagesExecutor
from app.executors.messages_api.graph_keys import PROVIDER
from app.executors.metering import Metering
from app.executors.port import GraphExecutor
from app.json_schema.checker import SchemaChecker
from app.settings import Settings
from app.tools.mcp_servers import McpConnector


def open_history(database: Database, sessions: PostgresSessionStore) -> ConversationHistory:
    """The history of conversations, whichever executor writes them."""
    forks = {claude_agents.PROVIDER: sessions.fork, PROVIDER: MessageStore(database).fork}
    return ConversationHistory(sessions, forks=forks, tool_id_of=tool_id_of)


@asynccontextmanager
async def open_messages(
    settings: Settings,
    auth: ModelAuth,
    metering: Metering,
    *,
    store: MessageStore,
    prompts: PromptStore,
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
            servers=McpConnector(settings.mcp_secrets, schemas),
            schemas=schemas,
            cache_ttl=settings.prompt_cache_ttl,
        )
        yield {PROVIDER: executor}
