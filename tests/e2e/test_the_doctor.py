"""`runtally doctor`: what of an installation cannot be used, said before a run fails of it."""

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from app.billing.chain.sealing_key import SealingKey
from app.bootstrap.roles import Role
from app.bootstrap.services import open_services
from app.cli.doctor import diagnose, show
from app.doctor.examination import examine
from app.doctor.report import Report
from app.executors.claude_agent.process.provider_variables import chooses_provider
from app.platform.settings import Settings
from app.simulator.script import HttpError, Reply, Text, in_turn
from app.simulator.server import Simulator
from tests.e2e.recording_cli import a_login, a_recording_cli, assert_isolated, starts
from tests.e2e.stories import PROVIDER_KEY, the_settings
from tests.e2e.test_the_commands import runtally
from tests.e2e.test_the_machines_own_login import ROUTING
from tests.e2e.workshop import EDITOR
from tests.e2e.workshop import settings as the_editor
from tests.provider.simulator import ReportingSimulator

NAMES = [
    *("settings", "variables", "tools", "graphs", "models", "prices", "webhooks", "sandbox", "data_dir"),
    *(
        "database",
        "notifications",
        "read_database",
        "chain",
        "fleet",
        "event_log",
        "dispatcher",
        "journal",
        "sdk",
        "cli",
        "gateway",
    ),
    *("auth", "reconciliation"),
]


async def examined(
    directory: Path, database_url: str, simulator: Simulator, *, with_probe: bool = False, **settings: Any
) -> Report:
    """The report of `runtally doctor` on an installation with these settings."""
    chosen = the_settings(directory, database_url, simulator.url, **settings)
    return await examine(chosen, environ={}, file_variables=(), with_probe=with_probe)


def printed_of(report: Report) -> str:
    """What the command prints of a report, as text and as JSON."""
    console = Console(file=io.StringIO(), width=1000)
    for as_json in (False, True):
        show(report, console, as_json=as_json)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def doctor(directory: Path, *options: str, **variables: str) -> tuple[int, str, str]:
    """Its exit code, what it printed and what it logged."""
    done = await runtally(directory, "doctor", *options, **variables)
    return done.returncode, done.stdout, done.stderr


def by_name(report: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The checks of a report; the last of each name."""
    return {check["name"]: check for check in report["checks"]}


def hello() -> ReportingSimulator:
    return ReportingSimulator(lambda _: Reply([Text("ok")]), accepted_keys=frozenset({PROVIDER_KEY}))


async def test_a_whole_installation_is_found_usable_without_a_server(tmp_path: Path) -> None:
    async with hello() as simulator:
        there = {"ANTHROPIC_API_KEY": PROVIDER_KEY, "ANTHROPIC_BASE_URL": simulator.url}
        SealingKey.create(tmp_path / "sealing.pem")
        sealing = {"RUNTALLY_SEALING_KEY_FILE": "sealing.pem"}
        reports = {
            "ANTHROPIC_ADMIN_API_KEY": simulator.reports.admin_key,
            "ANTHROPIC_ADMIN_BASE_URL": simulator.url,
            "RUNTALLY_PROVIDER_KEY_IDS": "apikey_1",
        }
        code, printed, _ = await doctor(tmp_path, "--json", **there, **sealing, **reports)

    report = json.loads(printed)
    assert (code, report["ok"]) == (0, True), printed
    assert [check["name"] for check in report["checks"]] == NAMES
    assert {check["status"] for check in report["checks"]} == {"ok"}
    assert "in the server's memory" in by_name(report)["event_log"]["detail"]
    assert simulator.requests == []
    assert PROVIDER_KEY not in printed


async def test_a_machine_that_only_serves_the_api_needs_no_key_and_no_sandbox(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    report, alone = [
        await examine(
            the_settings(tmp_path, database_url, "http://127.0.0.1:9", REDIS_URL=url, ANTHROPIC_API_KEY=None),
            environ={},
            file_variables=(),
            with_probe=False,
            role=Role.API,
        )
        for url in (redis_url, None)
    ]
    refused, _, problem = await doctor(tmp_path, "--role", "api", "--probe")

    names = [check.name for check in report.checks]
    assert report.ok, report
    assert [name for name in NAMES if name not in names] == ["sandbox", "sdk", "cli", "gateway", "auth"]
    assert (alone.ok, "`runtally api` needs REDIS_URL" in printed_of(alone)) == (False, True)
    assert (refused, "makes no model calls" in problem) == (2, True), problem


async def test_a_probe_says_what_a_call_costs_and_whether_the_meters_agree(
    tmp_path: Path, database_url: str
) -> None:
    usage = {"input_tokens": 1_000, "output_tokens": 1}
    async with hello() as simulator:
        simulator.responder = in_turn(Reply([Text("ok")], usage=usage, final_usage={"output_tokens": 100}))
        report = await examined(tmp_path, database_url, simulator, with_probe=True)

    checks = by_name(report.as_json())
    assert report.ok, report
    assert "1000 tokens in, 100 out, 0.0030000000 USD" in checks["probe"]["detail"]
    assert checks["meters"]["detail"].endswith("SDK 1, gateway 1, drift 0")
    (asked,) = simulator.requests
    assert (asked.tool_names, asked.body["max_tokens"]) == ([], 1_000)


async def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    graphs = tmp_path / "graphs"
    graphs.mkdir()
    (graphs / "one.md").write_text("---\ndescription: d\nturns: 3\nmax_turns: none\n---\nHi.")
    (graphs / "two.md").write_text("---\ndescription: d\nmodel: gpt-4\n---\nHi.")
    (graphs / "three.md").write_text("---\ndescription: d\ntools: [no__tool]\n---\nHi.")
    (tmp_path / "prices.yaml").write_text("prices: 5")
    async with hello() as simulator:
        code, printed, logged = await doctor(
            tmp_path,
            "--json",
            DATABASE_URL="postgresql://me:database-secret@127.0.0.1:1/x",
            REDIS_URL="redis://:redis-secret@127.0.0.1:1",
            ANTHROPIC_API_KEY="sk-not-accepted",
            ANTHROPIC_BASE_URL=simulator.url,
            RUNTALLY_GRAPHS_DIR=str(graphs),
            RUNTALLY_TOOLS="no_such_module,neither_this",
            RUNTALLY_PRICES_FILE="prices.yaml",
            RUNTALLY_WEBHOOK_ALLOW_PRIVATE="true",
            RUNTALLY_MARKUPP="3",
        )

    report = json.loads(printed)
    said = [f"{check['status']} {check['name']} {check['detail']}" for check in report["checks"]]
    assert (code, report["ok"]) == (1, False)
    for words in (
        *("one.md: turns", "one.md: max_turns", "three.md: tools", "claude_agents:two: model"),
        *("'no_such_module'", "'neither_this'", "error prices RUNTALLY_PRICES_FILE", "error database"),
        *("error event_log", "error auth ANTHROPIC_API_KEY was refused", "warning webhooks"),
        *("mean RUNTALLY_MARKUP?", "ok journal", "ok cli"),
    ):
        assert any(words in line for line in said), (words, printed)
    for secret in ("database-secret", "redis-secret", "sk-not-accepted"):
        assert secret not in printed + logged


async def test_settings_that_cannot_be_read_are_said_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("RUNTALLY_")]:
        monkeypatch.delenv(name)
    for name, value in {"MARKUP": "a-secret", "CLAUDE_AUTH": "both", "TOOL": "x"}.items():
        monkeypatch.setenv(f"RUNTALLY_{name}", value)
    monkeypatch.chdir(tmp_path)

    report = await diagnose(with_probe=False)

    said = [(check.name, check.detail) for check in report.checks]
    assert not report.ok
    assert [name for name, _ in said] == ["settings", "settings", "variables"]
    assert all(word in str(said) for word in ("RUNTALLY_MARKUP:", "RUNTALLY_CLAUDE_AUTH:", "RUNTALLY_TOOLS?"))
    assert "a-secret" not in printed_of(report)


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        (None, "provider_unavailable; see the log"),
        ({"error_code": "organization_on_hold"}, "the provider refuses this server: organization_on_hold"),
    ],
)
async def test_a_probe_that_fails_is_no_success(
    tmp_path: Path, database_url: str, details: dict[str, Any] | None, reason: str
) -> None:
    async with hello() as simulator:
        simulator.responder = lambda _: HttpError(403, "permission_error", details=details)
        report = await examined(tmp_path, database_url, simulator, with_probe=True)

    assert not report.ok
    assert reason in printed_of(report)


async def test_a_missing_login_is_an_error_whatever_keys_there_are(tmp_path: Path, database_url: str) -> None:
    (tmp_path / "login").mkdir()
    own = {"RUNTALLY_CLAUDE_AUTH": "local_session", "RUNTALLY_CLAUDE_CONFIG_DIR": tmp_path / "login"}
    async with hello() as simulator:
        report = await examined(
            tmp_path, database_url, simulator, with_probe=True, **the_editor(tmp_path), **own
        )

    checks = by_name(report.as_json())
    assert not report.ok
    assert "claude auth login" in checks["auth"]["detail"]
    # Native tools beside a login: what could read it is refused.
    assert checks["sandbox"]["status"] == "error"
    assert f"{EDITOR}: with RUNTALLY_CLAUDE_AUTH=local_session" in checks["sandbox"]["detail"]
    assert checks["probe"]["status"] == "error"
    assert simulator.requests == []


async def test_a_probe_by_the_login_is_isolated_like_every_run(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = a_login(tmp_path / "login")
    # What the login's owner has set up for himself is found by his CLI, and must change nothing.
    for kind in ("agents", "commands", "skills/mine"):
        (login / kind).mkdir(parents=True)
    (login / "agents" / "helper.md").write_text("---\nname: helper\ndescription: d\n---\nHelp.")
    (login / "commands" / "deploy.md").write_text("Deploy.")
    (login / "skills" / "mine" / "SKILL.md").write_text("---\nname: mine\ndescription: d\n---\nMine.")
    own = {"env": {"ANTHROPIC_AUTH_TOKEN": "sk-of-the-owner"}, "apiKeyHelper": "echo sk-of-the-owner"}
    (login / "settings.json").write_text(json.dumps(own))
    async with Simulator(lambda _: Reply([Text("ok")])) as simulator:
        for name, value in ROUTING.items():
            monkeypatch.setenv(name, value)
        report = await examine(
            the_settings(
                tmp_path,
                database_url,
                "http://127.0.0.1:9",
                RUNTALLY_CLAUDE_AUTH="local_session",
                RUNTALLY_CLAUDE_CONFIG_DIR=login,
            ),
            environ={},
            file_variables=(),
            with_probe=True,
            cli=a_recording_cli(tmp_path, {"ANTHROPIC_BASE_URL": simulator.url}),
        )

    checks = by_name(report.as_json())
    assert report.ok, report
    assert checks["meters"]["detail"].endswith("SDK 1, no gateway, drift from the CLI's own totals 0")
    assert checks["auth"]["detail"].startswith("local_session")
    assert [request.headers["authorization"] for request in simulator.requests] == [
        "Bearer sk-ant-oat01-of-a-test"
    ]
    started = starts(tmp_path)
    (run,) = [start for start in started if start.is_run]
    assert_isolated(run)
    for start in started:
        names = {name for name in start.environment if chooses_provider(name)}
        assert names == {"ANTHROPIC_BASE_URL"}, start
        assert "sk-of-the-server" not in str(start)


async def test_a_server_opens_what_the_doctor_found_usable(tmp_path: Path, database_url: str) -> None:
    async with hello() as simulator:
        settings: Settings = the_settings(tmp_path, database_url, simulator.url)
        report = await examine(settings, environ={}, file_variables=(), with_probe=False)
        async with open_services(settings) as services:
            graphs = [graph.id for graph in services.graphs.all()]

    assert report.ok
    assert by_name(report.as_json())["graphs"]["detail"] == ", ".join(graphs)
