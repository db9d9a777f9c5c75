from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore
from typing import Any, TypeAlias

import pytest
from fastapi import APIRouter, Request, Response

from app.http.admission.checks import SMALL_BODY_BYTES, TEXT_BODY_BYTES, CheckedRoute, literal_paths
from app.http.anthropic.telemetry_routes import MAX_BYTES
from app.http.app import documented_app
from app.http.routers import ROUTERS
from tests.patience import PATIENCE_S

Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]

PASSED_ON_PATHS = {"/anthropic/v1/messages", "/anthropic/v1/messages/count_tokens"}
"""Their bodies go to the provider as they are."""
LARGE_BODY_PATHS = {
    *PASSED_ON_PATHS,
    "/v1/runs",
    "/v1/runs/stream",
    "/v1/runs/wait",
    "/v1/runs/preview",
    "/v1/runs/{runId}/messages",
    "/v1/batches",
    "/v1/batches/preview",
    "/v1/schedules",
    "/v1/schedules/{scheduleId}",
    "/v1/ag-ui/{graphId}",
    "/v1/ai-sdk/{graphId}/chat",
    "/managed-agents/v1/sessions",
    "/managed-agents/v1/sessions/{sessionId}/events",
    "/openai/v1/chat/completions",
    "/openai/v1/responses",
}
TELEMETRY_PATHS = {f"/anthropic/v1/{signal}" for signal in ("metrics", "logs", "traces")}
TEXT_BODY_PATHS = {
    *("/mcp", "/v1/generate/text", "/v1/generate/object", "/v1/runs/{runId}/permissions/{requestId}"),
    *("/v1/runs/{runId}/questions/{requestId}", "/v1/runs/{runId}/tool-results/{toolCallId}"),
}
UNAUTHENTICATED_PATHS = {
    "/anthropic/.well-known/oauth-authorization-server",
    *(f"/anthropic/oauth/{name}" for name in ("device_authorization", "token", "revoke")),
    *(
        *("/", "/approvals", "/billing", "/console", "/device", "/docs", "/embed", "/embed.js", "/shared"),
        "/v1/shared",
    ),
    *("/openapi.json", "/healthz", "/readyz"),
    *(f"/docs/guide{path}" for path in ("", "/search.json", "/{name:path}")),
    *(f"/v1/browser-session{path}" for path in ("", "/methods", "/oidc", "/oidc/callback")),
    "/.well-known/oauth-protected-resource/mcp",
}


def all_routes() -> Iterator[CheckedRoute]:
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, CheckedRoute), (
                f"{route} does not check requests before it reads the body"
            )
            yield route


def test_every_route_with_a_body_declares_its_size_limit() -> None:
    declared = {(route.path, route.body_limit is not None) for route in all_routes() if route.body_field}
    needless = [
        route.path
        for route in all_routes()
        if route.body_limit and route.body_limit.is_json and not route.body_field
    ]

    assert {path for path, is_declared in declared if not is_declared} == set()
    assert set(needless) == PASSED_ON_PATHS


def test_only_routes_for_files_and_images_have_no_size_limit_of_their_own() -> None:
    limits = {route.path: route.body_limit.max_bytes for route in all_routes() if route.body_limit}

    assert {path for path, limit in limits.items() if limit is None} == LARGE_BODY_PATHS
    assert {path for path, limit in limits.items() if limit == TEXT_BODY_BYTES} == TEXT_BODY_PATHS
    assert {path for path, limit in limits.items() if limit == MAX_BYTES} == TELEMETRY_PATHS
    small = (limit for limit in limits.values() if limit not in {TEXT_BODY_BYTES, MAX_BYTES})
    assert max(limit for limit in small if limit is not None) == SMALL_BODY_BYTES


def test_all_other_routes_authenticate_before_they_read_the_body() -> None:
    assert {route.path for route in all_routes() if not route.scopes} == UNAUTHENTICATED_PATHS


def test_a_body_without_authentication_is_small() -> None:
    limits = [route.body_limit for route in all_routes() if route.body_limit and not route.scopes]

    assert [limit.max_bytes for limit in limits] == [4096] * 4


def test_literal_paths_are_those_without_parameters() -> None:
    found = literal_paths(list(all_routes()))

    assert {"/v1/runs", "/v1/runs/stream", "/healthz"} <= found
    assert not [path for path in found if "{" in path]


def test_requests_are_matched_against_the_declared_routes_themselves() -> None:
    served = documented_app().router.routes

    assert [route for route in served if isinstance(route, CheckedRoute)] == list(all_routes())
    assert len(served) == len(list(all_routes()))


def test_an_operation_has_the_name_of_its_function_and_errors_are_problems() -> None:
    (create,) = [route for route in all_routes() if (route.path, route.methods) == ("/v1/runs", {"POST"})]
    (chat,) = [route for route in all_routes() if route.path == "/openai/v1/chat/completions"]

    assert create.unique_id == "start_run"
    assert create.responses["4XX"]["model"].__name__ == "Problem"
    assert chat.responses["4XX"]["model"].__name__ == "OpenAiError"


def test_a_route_is_prepared_once_when_it_is_first_asked_for() -> None:
    asked, prepared = Semaphore(0), list[str]()

    class Route(CheckedRoute):
        def __getattr__(self, name: str) -> Any:
            asked.release()
            return super().__getattr__(name)

        def get_route_handler(self) -> Handler:
            prepared.append(self.path)
            assert router.routes, "it is declared"
            assert all(asked.acquire(timeout=PATIENCE_S) for _ in range(2)), "both threads ask for it"
            return super().get_route_handler()

    async def show(name: str) -> None:
        """Show one."""

    router = APIRouter(route_class=Route)
    router.add_api_route("/shown/{name}", show)
    (route,) = router.routes
    assert isinstance(route, Route)
    assert literal_paths([route]) == frozenset()
    assert prepared == []

    with ThreadPoolExecutor(2) as threads:
        apps = set(threads.map(lambda _: route.app, range(2)))

    assert (len(apps), route.methods, prepared) == (1, {"GET"}, ["/shown/{name}"])
    with pytest.raises(AttributeError, match="no_such"):
        _ = route.no_such
