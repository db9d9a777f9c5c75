"""The ASGI app: middleware, routes and error handlers."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware

from app import __version__
from app.bootstrap.roles import Role
from app.bootstrap.services import Services
from app.http import middleware
from app.http.admission.bodies import BodyReader
from app.http.admission.body_budget import BodyBudget
from app.http.admission.limits import FailedKeyLimit, RequestLimits
from app.http.admission.reader_limit import ReaderLimit
from app.http.admission.token_buckets import TokenBuckets
from app.http.ag_ui.openapi import ag_ui_schemas
from app.http.anthropic.errors import MessagesErrors
from app.http.anthropic.login.errors import OAuthErrors
from app.http.api.batches.schemas import line_schemas
from app.http.api.health.routes import MAX_AGE_S, unavailable_parts
from app.http.api.pages.routes import files
from app.http.foreign_errors import ErrorForms, ForeignErrors
from app.http.managed_agents.errors import ManagedAgentsErrors
from app.http.mcp.errors import McpErrors
from app.http.native.openapi import event_schemas
from app.http.openai.errors import OpenAiErrors
from app.http.openapi.document import DocumentedApp
from app.http.problems import install_error_handlers
from app.http.request_log import RequestLog
from app.http.routers import LITERAL_PATHS, ROUTERS, WORKER_ROUTERS
from app.http.streaming.closing import OpenStreams
from app.http.streaming.sse import HEARTBEAT_S
from app.platform.concurrency.shared_result import SharedResult

DESCRIPTION: Final = """
Runs agent graphs and meters their usage. Authenticate with `Authorization: Bearer rt_…`, or sign in on `/`.
Every error is a problem document (RFC 9457).
"""

TAGS: Final = {
    "runs": "Start runs, follow their events, send them messages.",
    "control": "Stop running agents, decide on their tool calls, send them messages.",
    "batches": "Many requests of one graph at once.",
    "schedules": "Runs at set times.",
    "sessions": "Conversations and their messages.",
    "generate": "One answer to one prompt.",
    "ag-ui": "The AG-UI protocol.",
    "ai-sdk": "The Vercel AI SDK.",
    "openai": "The API of OpenAI.",
    "mcp": "The Model Context Protocol.",
    "anthropic": "The Messages API, for agents of clients.",
    "managed-agents": "The API of Managed Agents.",
    "receipts": "What runs have cost.",
    "billing": "Credit, alarms and the provider's reports.",
    "accounts": "Accounts and API keys.",
    "webhooks": "Receipts and ends of runs, sent to URLs.",
    "catalogs": "Graphs, tools and models.",
    "health": "The state of servers.",
    "browsers": "Sessions of the pages.",
}
"""Descriptions of the tags in the OpenAPI document, in the order in which it shows them."""

ERROR_FORMS: Final = ErrorForms(
    # Signing in has another form than the other paths of its wire.
    *(OpenAiErrors(), OAuthErrors(), MessagesErrors(), ManagedAgentsErrors(), McpErrors())
)

_BURST_S: Final = 4
"""Bucket size of write requests, in seconds of the rate."""

_BODIES_BURST_S: Final = 16
"""Bucket size of body bytes, in seconds of the rate."""

_CORS: Final[dict[str, Any]] = {
    # Origins of the same site, such as chat.example.org and api.example.org, can use the cookie as well.
    "allow_credentials": True,
    "allow_methods": ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"),
    "allow_headers": (
        *("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID"),
        *("X-AI-SDK-Version", "X-Request-ID", "traceparent", "tracestate"),
        *("MCP-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name"),
    ),
    "expose_headers": (
        *("X-Request-ID", "Location", "Retry-After", "RateLimit", "RateLimit-Policy"),
        *("x-vercel-ai-ui-message-stream", "Mcp-Session-Id"),
    ),
}


def documented_app(role: Role = Role.SERVE) -> DocumentedApp:
    """The routes and error handlers without services: what the OpenAPI document describes."""
    app = DocumentedApp(
        wire_schemas=(event_schemas, ag_ui_schemas, line_schemas),
        title="Runtally",
        version=__version__,
        description=DESCRIPTION,
        license_info={"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/", "description": "The server that serves this document."}],
        openapi_tags=[{"name": name, "description": text} for name, text in TAGS.items()],
        redirect_slashes=False,
        # FastAPI's pages load unpinned scripts, which would have the session's rights; ours are in app/web.
        docs_url=None,
        redoc_url=None,
    )
    install_error_handlers(app)
    for router in WORKER_ROUTERS if role is Role.WORKER else ROUTERS:
        app.router.routes.extend(router.routes)
    return app


def create_app(
    services: Services,
    *,
    heartbeat_s: float = HEARTBEAT_S,
    is_proxy: Callable[[str], bool] = lambda _: False,
) -> FastAPI:
    """Build the app over open services; the caller closes them.

    `is_proxy` recognizes addresses of proxies, each of which represents many clients.
    """
    app = documented_app(services.role)
    app.state.services = services
    app.state.heartbeat_s = heartbeat_s
    app.state.readiness = SharedResult(partial(unavailable_parts, services), max_age_s=MAX_AGE_S)
    app.state.limits = _limits(services, is_proxy)
    app.state.open_streams = streams = OpenStreams()
    services.metrics.add_gauge(
        "open_streams", "Event streams and requests that wait for a result.", lambda: len(streams)
    )
    if services.role is not Role.WORKER:
        app.mount("/assets", GZipMiddleware(files, compresslevel=6))
    app.state.literal_paths = LITERAL_PATHS
    # The middleware added last is the outermost.
    app.add_middleware(middleware.CompressedJson)
    app.add_middleware(middleware.UnexpectedErrors)
    if origins := services.settings.cors_origins:
        app.add_middleware(CORSMiddleware, allow_origins=origins, **_CORS)
    app.add_middleware(ForeignErrors, forms=ERROR_FORMS)
    # Around those that read the bodies of errors.
    app.add_middleware(middleware.HeadRequests)
    app.add_middleware(middleware.UnreadBodies)
    app.add_middleware(middleware.SecurityHeaders)
    app.add_middleware(RequestLog)
    app.add_middleware(middleware.RequestIds)
    return app


def _limits(services: Services, is_proxy: Callable[[str], bool]) -> RequestLimits:
    settings = services.settings
    writes, body_bytes = settings.max_writes_per_second, settings.max_body_bytes_per_second
    budget = BodyBudget(
        total=settings.max_bodies_bytes,
        per_account=settings.max_bodies_bytes_per_account,
        rate=TokenBuckets(per_s=body_bytes, burst=body_bytes * _BODIES_BURST_S),
    )
    return RequestLimits(
        bodies=BodyReader(
            budget,
            services.memory,
            services.offload,
            max_bytes=settings.max_body_bytes,
            timeout_s=settings.body_timeout_s,
        ),
        readers=ReaderLimit(per_key=settings.max_readers_per_key, per_run=settings.max_readers_per_run),
        writes=TokenBuckets(per_s=writes, burst=writes * _BURST_S),
        requests=TokenBuckets(per_s=1, burst=1),
        failed_keys=FailedKeyLimit(per_minute=settings.max_failed_keys_per_minute, is_proxy=is_proxy),
    )
