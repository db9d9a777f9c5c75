"""The conformance tests of MCP's authors for tasks, as far as they call none of their own tools."""

import json
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.keyed import with_key
from tests.conformance.newer_node import run_package
from tests.conformance.test_mcp_conformance import PROGRAM, a_key, a_world
from tests.e2e.stories import WorldOf

pytestmark = pytest.mark.long

_SCENARIOS: Final = (
    *("lifecycle", "capability-negotiation", "wire-fields", "request-state-removal", "mrtr-input"),
    *("request-headers", "dispatch-and-envelope", "status-notifications", "required-task-error"),
    "mrtr-composition",
)
APPLY: Final = {
    *("tasks-extension-advertised", "sep-2663-tasks-methods-non-declaring"),
    *("sep-2663-tasks-result-removed-method-not-found", "tasks-removed-tasks-list"),
    *("sep-2663-tasks-get-invalid-task-id-32602", "tasks-headers-reject-mismatched-method"),
    "wire-schema-valid",
}
"""What passes: all that is wanted before a call of `greet`, `slow_compute` and others."""


async def test_all_that_applies_to_tasks_is_as_the_extension_has_it(
    world_of: WorldOf, tmp_path: Path
) -> None:
    world = await a_world(world_of, tmp_path)
    results = tmp_path / "results"
    # They are on no revision's list.
    options = ["--spec-version", "2026-07-28", "--force", "--output-dir", str(results)]

    async with with_key(world.url, await a_key(world)) as url:
        target = ["server", "--url", f"{url}/mcp", *options]
        printed = [
            await run_package(
                PROGRAM, *target, "--scenario", f"tasks-{name}", statuses=(0, 1), variables={"HOME": "/"}
            )
            for name in _SCENARIOS
        ]

    checks = [
        check
        for path in results.glob("server-tasks-*/checks.json")
        for check in json.loads(path.read_text(encoding="utf-8"))
    ]
    passed = {each["id"] for each in checks if each["status"] == "SUCCESS"}
    failed = {each["id"] for each in checks if each["status"] != "SUCCESS"}
    assert passed == APPLY, printed
    assert failed.isdisjoint(APPLY), printed
