"""Each check of the doctor, with what it stands for broken: none of them is ok by habit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap.roles import Role
from app.doctor.examination import examine
from app.executors.claude_agent.process.cli import Cli
from tests.e2e.stories import the_settings
from tests.e2e.test_the_doctor import NAMES, hello
from tests.oidc_provider import OidcProvider

CLOSED = "127.0.0.1:9"


@dataclass(frozen=True, slots=True)
class Broken:
    """How one part is broken, and how the doctor says so."""

    words: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """By their names in the directory of the test, to which settings are relative."""
    status: str = "error"
    role: Role = Role.SERVE
    cli: str | None = None
    """A program in place of the CLI."""


SERVER = "mcp_servers: {lib: {type: stdio, command: [/no/such/program], tools: {search: read_only}}}"
EDITOR = "native_tools: [Bash]"


def a_graph(*lines: str) -> dict[str, str]:
    head = "\n".join(("description: Works.", *lines))
    return {"graphs/worker.md": f"---\n{head}\n---\nWork.\n"}


PERSONS = OidcProvider(url=f"http://{CLOSED}").settings()
OWN_GRAPHS = {"RUNTALLY_GRAPHS_DIR": "graphs"}
BROKEN: dict[str, Broken] = {
    "settings": Broken("needs REDIS_URL", role=Role.API),
    "variables": Broken("RUNTALLY_MARKUP?", variables={"RUNTALLY_MARKUPP": "3"}, status="warning"),
    "tools": Broken("no_such_module", {"RUNTALLY_TOOLS": "no_such_module"}),
    "graphs": Broken("worker.md", OWN_GRAPHS, files=a_graph("turns: 3")),
    "models": Broken("RUNTALLY_MODELS_FILE", {"RUNTALLY_MODELS_FILE": "m.yaml"}, files={"m.yaml": "a: 1"}),
    "prices": Broken("RUNTALLY_PRICES_FILE", {"RUNTALLY_PRICES_FILE": "p.yaml"}, files={"p.yaml": "a: 1"}),
    "webhooks": Broken("own network", {"RUNTALLY_WEBHOOK_ALLOW_PRIVATE": True}, status="warning"),
    "sandbox": Broken(
        "claude_agents:worker",
        {**OWN_GRAPHS, "RUNTALLY_CLAUDE_AUTH": "local_session", "RUNTALLY_CLAUDE_CONFIG_DIR": "login"},
        files={**a_graph(EDITOR), "login/settings.json": "{}"},
    ),
    "data_dir": Broken("data", {"RUNTALLY_DATA_DIR": "data"}, files={"data": "a file"}),
    "database": Broken("DATABASE_URL", {"DATABASE_URL": f"postgresql://me@{CLOSED}/x"}),
    "event_log": Broken("REDIS_URL", {"REDIS_URL": f"redis://{CLOSED}"}),
    "dispatcher": Broken("TEMPORAL_ADDRESS", {"TEMPORAL_ADDRESS": CLOSED}),
    "journal": Broken("journal", {"RUNTALLY_DATA_DIR": "data"}, files={"data/journal": "a file"}),
    "cli": Broken("0.0.1 instead of", cli="#!/bin/sh\necho 0.0.1\n"),
    "auth": Broken("was refused", {"ANTHROPIC_API_KEY": "sk-of-nobody"}),
    "issuers": Broken("no persons are accepted: ConnectError", PERSONS),
    "mcp_servers": Broken("lib", OWN_GRAPHS, files=a_graph(SERVER)),
}
ELSEWHERE = {
    *("chain", "fleet", "sdk", "reconciliation", "notifications", "read_database"),
    # It listens while it is checked, or the check of the key fails.
    "gateway",
}
"""Broken in `test_chain_surfaces`, `test_fleet`, `test_machine`, `test_doctor_reconciliation`,
`test_poolers`, and `test_read_side`."""


def test_every_check_is_broken_somewhere() -> None:
    assert BROKEN.keys() | ELSEWHERE == {*NAMES, "issuers", "mcp_servers"}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_check_turns_when_what_it_stands_for_is_broken(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    broken = BROKEN[name]
    for path, content in {**broken.files, "cli": broken.cli or ""}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
    (tmp_path / "cli").chmod(0o700)
    monkeypatch.chdir(tmp_path)

    async with hello() as simulator:
        report = await examine(
            the_settings(tmp_path, database_url, simulator.url, **broken.settings),
            environ=broken.variables,
            file_variables=(),
            with_probe=False,
            role=broken.role,
            cli=Cli(tmp_path / "cli") if broken.cli else None,
        )

    found = {check.name: check for check in report.checks}
    assert found[name].status == broken.status, report
    assert broken.words in found[name].detail, report
    assert report.ok == (broken.status == "warning")
