"""The contract suite: the existing tests of what code of ours relies on, by package."""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.rehearsal.environment import ROOT

_CLI = (
    "tests/e2e/test_the_clis_price_table.py",
    "tests/e2e/test_the_bill_equals_the_wire.py",
    "tests/e2e/test_costs_agree_with_the_cli.py",
    "tests/e2e/test_the_gateway_sees_what_the_sdk_hides.py",
    "tests/e2e/test_what_the_provider_refuses.py",
    "tests/e2e/test_how_a_run_ends.py",
    "tests/e2e/test_a_run_from_request_to_receipts.py",
    "tests/e2e/test_which_model_is_asked.py",
    "tests/e2e/test_a_conversation_goes_on.py",
    "tests/e2e/test_answers_with_schemas.py",
    "tests/e2e/test_a_graph_gives_work_to_subagents.py",
    "tests/e2e/test_an_agent_works_on_files.py",
    "tests/e2e/test_a_turn_is_interrupted.py",
)

CONTRACTS: Mapping[str, tuple[str, ...]] = {
    "claude-agent-sdk": (
        *_CLI,
        "tests/unit/executors/claude_agent",
        "tests/unit/conversations",
        "tests/contracts/test_session_store.py",
    ),
    "anthropic": (
        "tests/e2e/test_a_graph_runs_without_a_process.py",
        "tests/unit/executors/messages_api",
        "tests/unit/models",
        "tests/unit/simulator",
        "tests/integration/test_simulator.py",
    ),
    "mcp": (
        "tests/e2e/test_tools_of_other_peoples_servers.py",
        "tests/unit/tools/mcp",
        "tests/unit/executors/claude_agent/tools",
        "tests/integration/test_hostile_tool_servers.py",
    ),
    "ag-ui-protocol": ("tests/e2e/test_an_ag_ui_client_asks.py", "tests/unit/http"),
    "genai-prices": (
        "tests/e2e/test_the_clis_price_table.py",
        "tests/integration/test_dollars.py",
        "tests/unit/billing/prices",
    ),
}
"""Every package that can be rehearsed."""


def contracts_of(packages: Iterable[str]) -> list[str]:
    """The tests for these packages, each once; the longest come first, so that all processes end together."""
    found = dict.fromkeys(test for package in packages for test in CONTRACTS[package])
    return sorted(found, key=lambda test: not test.startswith("tests/e2e"))


def run(python: Path, packages: Iterable[str]) -> tuple[bool, list[str]]:
    """Whether the tests pass in this environment, and the lines to show of what pytest printed."""
    options = ["-q", "-n", "2", "--dist=loadfile", "--no-loadscope-reorder", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [python, "-m", "pytest", *options, "-m", "not long", "--tb=short", *contracts_of(packages)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    passed = done.returncode == 0
    return passed, lines[-1:] if passed else lines
