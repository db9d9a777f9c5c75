from collections.abc import Iterator

import pytest

from app.http.admission.checks import SMALL_BODY_BYTES, TEXT_BODY_BYTES, AdmittedRoute, literal_paths
from app.http.routers import ROUTERS

TAKES_IMAGES_OR_FILES = {
    "/v1/runs",
    "/v1/runs/stream",
    "/v1/runs/wait",
    "/v1/runs/preview",
    "/v1/runs/{runId}/messages",
    "/v1/ag-ui/{graphId}",
    "/v1/ai-sdk/{graphId}/chat",
}
TAKES_TEXT = {
    "/v1/generate/text",
    "/v1/generate/object",
    "/v1/runs/{runId}/permissions/{requestId}",
}
WITHOUT_A_KEY = {
    *("/", "/billing", "/docs", "/openapi.json", "/healthz", "/readyz"),
    "/v1/browser-session",
}


def all_routes() -> Iterator[AdmittedRoute]:
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, AdmittedRoute), f"{route} decides after it has read the body"
            yield route


def test_every_route_that_reads_a_body_says_how_much() -> None:
    declared = {(route.path, route.takes is not None) for route in all_routes() if route.body_field}
    needless = [route.path for route in all_routes() if route.takes and not route.body_field]

    assert {path for path, says_so in declared if not says_so} == set()
    assert needless == []


def test_only_what_takes_files_and_images_takes_much() -> None:
    takes = {route.path: route.takes.max_bytes for route in all_routes() if route.takes}

    assert {path for path, most in takes.items() if most is None} == TAKES_IMAGES_OR_FILES
    assert {path for path, most in takes.items() if most == TEXT_BODY_BYTES} == TAKES_TEXT
    small = [most for most in takes.values() if most is not None and most != TEXT_BODY_BYTES]
    assert max(small) == SMALL_BODY_BYTES


def test_every_route_asks_for_a_key_before_it_reads_but_those_that_need_none() -> None:
    assert {route.path for route in all_routes() if not route.scopes} == WITHOUT_A_KEY


def test_nobody_without_a_key_has_much_read() -> None:
    (sign_in,) = [route for route in all_routes() if route.takes and not route.scopes]

    assert sign_in.takes is not None
    assert sign_in.takes.max_bytes == pytest.approx(4096)


def test_literal_paths_are_those_without_parameters() -> None:
    found = literal_paths(list(all_routes()))

    assert {"/v1/runs", "/v1/runs/stream", "/healthz"} <= found
    assert not [path for path in found if "{" in path]
