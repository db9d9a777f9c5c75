"""The conformance tests of the Model Context Protocol's authors, at our own server."""

import json
from pathlib import Path
from typing import Final

import pytest

from app.simulator.script import Reply, Text
from tests.conformance.keyed import with_key
from tests.conformance.newer_node import run_package
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import World, WorldOf

pytestmark = pytest.mark.long

PROGRAM: Final = "@modelcontextprotocol/conformance/dist/index.js"
_BAD: Final = {"FAILURE", "WARNING"}

_TEST_SERVER: Final = "calls tools or prompts that only a server made for these tests has"
_RESOURCES: Final = "resources are not served"
DOES_NOT_APPLY: Final = {
    "completion-complete": "prompts have no arguments to complete",
    "dns-rebinding-protection": "it is for servers without keys: a page of another site has none",
    "elicitation-sep1034-defaults": _TEST_SERVER,
    "elicitation-sep1330-enums": _TEST_SERVER,
    "http-custom-header-server-validation": "no graph has an argument that travels in a header",
    **{
        f"input-required-result-{name}": _TEST_SERVER
        for name in (
            *("basic-elicitation", "basic-list-roots", "basic-sampling", "capability-check"),
            *("ignore-extra-params", "missing-input-response", "multi-round", "multiple-input-requests"),
            *("non-tool-request", "request-state", "result-type", "tampered-state"),
        )
    },
    "json-schema-2020-12": _TEST_SERVER,
    "logging-set-level": "log messages are not sent to clients",
    **{
        f"prompts-get-{name}": _TEST_SERVER
        for name in ("embedded-resource", "simple", "with-args", "with-image")
    },
    **{
        f"resources-{name}": _RESOURCES
        for name in ("list", "read-binary", "read-text", "subscribe", "templates-read", "unsubscribe")
    },
    "sep-2164-resource-not-found": _RESOURCES,
    **{
        f"tools-call-{name}": _TEST_SERVER
        for name in (
            *("audio", "elicitation", "embedded-resource", "error", "image", "mixed-content"),
            *("sampling", "simple-text", "with-logging", "with-progress"),
        )
    },
    # Parts of scenarios of which the rest applies.
    "sep-2549-resources-list-caching-hints": _RESOURCES,
    "sep-2549-resources-templates-list-caching-hints": _RESOURCES,
    "sep-2575-http-server-no-independent-requests-on-stream": _TEST_SERVER,
    "sep-2575-missing-capability-http-400": _TEST_SERVER,
    "sep-2575-server-no-log-without-loglevel": _TEST_SERVER,
    "sep-2575-server-rejects-undeclared-capability": _TEST_SERVER,
}
"""Scenarios, and parts of them, and why."""

APPLY: Final = {
    "2025-06-18": {"server-initialize", "server-session-lifecycle", "ping", "tools-list", "prompts-list"},
    "2025-11-25": {
        *("server-initialize", "server-session-lifecycle", "ping", "tools-list", "prompts-list"),
        *("server-sse-polling", "server-sse-multiple-streams"),
    },
    "2026-07-28": {
        *("server-stateless", "tools-list", "prompts-list", "server-sse-multiple-streams", "caching"),
        *("http-header-validation", "input-required-result-unsupported-methods"),
        "input-required-result-validate-input",
    },
}
"""What is left of each revision, so that no scenario disappears unseen."""


GRAPH: Final = """---
description: Answers.
input: {type: object, properties: {text: {type: string}}}
suggestions: [Hello]
---
Answer.
"""
"""The tests call the first tool without arguments."""


async def a_world(world_of: WorldOf, directory: Path) -> World:
    """A server with that graph."""
    (graphs := directory / "graphs").mkdir()
    (graphs / "first.md").write_text(GRAPH)
    replies = Reply([Text("Hello.")])
    return await world_of(lambda _: replies, agent=MESSAGES, RUNTALLY_GRAPHS_DIR=graphs)


async def a_key(world: World) -> str:
    """A key for that graph only."""
    wanted = {"name": "conformance", "scopes": ["runs:write", "runs:read"], "graphs": ["messages:first"]}
    found: str = (
        (await world.http.post("/v1/accounts/default/keys", json=wanted)).raise_for_status().json()["key"]
    )
    return found


@pytest.mark.parametrize("revision", sorted(APPLY))
async def test_all_that_applies_is_as_the_protocol_has_it(
    world_of: WorldOf, tmp_path: Path, revision: str
) -> None:
    world = await a_world(world_of, tmp_path)
    results = tmp_path / "results"
    options = ["--spec-version", revision, "--suite", "all", "--output-dir", str(results)]

    async with with_key(world.url, await a_key(world)) as url:
        # Its status is 1 if anything fails, also what does not apply.
        printed = await run_package(
            PROGRAM, "server", "--url", f"{url}/mcp", *options, statuses=(0, 1), variables={"HOME": "/"}
        )

    bad: dict[str, list[str]] = {}
    for path in results.glob("server-*/checks.json"):
        scenario = path.parent.name.removeprefix("server-")[: -len("-2026-01-01T00-00-00-000Z")]
        checks = json.loads(path.read_text(encoding="utf-8"))
        bad[scenario] = [each["id"] for each in checks if each["status"] in _BAD]
    assert {scenario for scenario in bad if scenario not in DOES_NOT_APPLY} == APPLY[revision], printed
    unexpected = {
        (scenario, check)
        for scenario in APPLY[revision]
        for check in bad[scenario]
        if check not in DOES_NOT_APPLY
    }
    assert unexpected == set(), printed
    # A scenario that passes wholly applies.
    assert [scenario for scenario in bad if scenario in DOES_NOT_APPLY and not bad[scenario]] == []
