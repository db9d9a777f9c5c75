"""Opens the transport to an external MCP server, with its limits."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import httpx2
from mcp.client.streamable_http import streamable_http_client

from app.platform.network import Network
from app.platform.outgoing import outgoing_transport
from app.tools.mcp.http import BoundedTransport, IdentityTransport, McpHttpClient
from app.tools.mcp.limits import ResponseLimit
from app.tools.mcp.spec import AnyServer, HttpServer, SseServer, StdioServer
from app.tools.mcp.sse import legacy_sse
from app.tools.mcp.stdio import bounded_stdio

_WRITE_S = 10.0
"""How long a server may take to accept a message, if it gets one after the other."""

Transport = AbstractAsyncContextManager[object]


async def open_transport(
    server: str,
    spec: AnyServer,
    values: Mapping[str, str],
    *,
    stack: AsyncExitStack,
    limit: ResponseLimit,
    auth: httpx2.Auth | None,
    network: Network,
    patience_s: float = 0,
) -> Transport:
    """The transport; `values` are the headers or the environment, with their secrets.

    `patience_s`: how long a response may be silent besides, because the server waits for a person.
    """
    write_s = min(spec.timeout_s, _WRITE_S)
    match spec:
        case StdioServer():
            return bounded_stdio(spec.argv, values, limit=limit, server=server, write_s=write_s)
        case HttpServer():
            bounded = BoundedTransport(
                outgoing_transport(network), limit, response_s=spec.longest_call_s + patience_s
            )
            http: httpx2.AsyncClient = await stack.enter_async_context(
                McpHttpClient(
                    headers=values,
                    timeout=httpx2.Timeout(spec.timeout_s, read=spec.timeout_s + patience_s),
                    trust_env=False,
                    transport=bounded,
                    auth=auth,
                )
            )
            return streamable_http_client(spec.url, http_client=http, max_sse_event_size=limit.max_bytes)
        case SseServer():
            # The stream is silent as long as there is nothing to do.
            timeout = httpx2.Timeout(spec.timeout_s, read=None)
            http = await stack.enter_async_context(
                httpx2.AsyncClient(
                    headers=values,
                    timeout=timeout,
                    trust_env=False,
                    transport=IdentityTransport(outgoing_transport(network)),
                    auth=auth,
                )
            )
            return legacy_sse(spec.url, http, limit=limit, write_s=write_s)
