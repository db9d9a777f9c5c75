"""The ASGI app: middleware, routes, and one way to say that something went wrong."""

from typing import Final

from fastapi import FastAPI

from app.bootstrap import Services
from app.http import problems
from app.http.middleware import BodyLimit, RequestIds
from app.http.routes import catalogues, health, receipts, runs
from app.http.schemas import Problem

DESCRIPTION: Final = """
Runs agent graphs and keeps the tally. Authenticate with `Authorization: Bearer rt_…`.
Every error is a problem document (RFC 9457).
"""


def create_app(services: Services) -> FastAPI:
    """Build the app over open services; whoever opened them closes them."""
    app = FastAPI(
        title="Runtally",
        version="1",
        description=DESCRIPTION,
        responses={
            "4XX": {"model": Problem, "content": {problems.MEDIA_TYPE: {}}},
            "5XX": {"model": Problem, "content": {problems.MEDIA_TYPE: {}}},
        },
    )
    app.state.services = services
    problems.install(app)
    for router in (runs.router, receipts.router, catalogues.router, health.router):
        app.include_router(router)
    app.add_middleware(BodyLimit, max_bytes=services.settings.max_body_bytes)
    app.add_middleware(RequestIds)
    return app
