"""The ASGI app: middleware, routes, and one way to say that something went wrong."""

from typing import Final

from fastapi import FastAPI

from app.bootstrap.services import Services
from app.http import problems
from app.http.middleware import BodyLimit, Heads, RequestIds, UnexpectedErrors
from app.http.openapi import ERRORS, DocumentedApp
from app.http.routes import (
    accounts,
    ag_ui,
    ai_sdk,
    catalogues,
    control,
    files,
    generate,
    health,
    receipts,
    runs,
    sessions,
    usage,
    webhooks,
)
from app.http.schemas import Problem
from app.http.sse import HEARTBEAT_S

DESCRIPTION: Final = """
Runs agent graphs and keeps the tally. Authenticate with `Authorization: Bearer rt_…`.
Every error is a problem document (RFC 9457).
"""


def create_app(services: Services, *, heartbeat_s: float = HEARTBEAT_S) -> FastAPI:
    """Build the app over open services; whoever opened them closes them."""
    app = DocumentedApp(
        title="Runtally",
        version="1",
        description=DESCRIPTION,
        responses={status: {"model": Problem} for status in ERRORS},
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.services = services
    app.state.heartbeat_s = heartbeat_s
    problems.install(app)
    for router in (
        runs.router,
        control.router,
        files.router,
        sessions.router,
        generate.router,
        ag_ui.router,
        ai_sdk.router,
        receipts.router,
        usage.router,
        accounts.router,
        webhooks.router,
        catalogues.router,
        health.router,
    ):
        app.include_router(router)
    # The last one added is the outermost.
    app.add_middleware(Heads)
    app.add_middleware(BodyLimit, max_bytes=services.settings.max_body_bytes)
    app.add_middleware(UnexpectedErrors)
    app.add_middleware(RequestIds)
    return app
