"""Alerts and dashboard: each alert has its page and fires when it should; every query is PromQL."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from tests.architecture.test_documentation import anchors
from tests.architecture.tree import ROOT
from tests.programs import require

FOLDER = ROOT / "deploy" / "prometheus"
PAGE = ROOT / "docs" / "INCIDENTS.md"
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
}
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "runtally.json").read_text("utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
PER_PROCESS = {"instance": "a", "job": "runtally"}

FIRING: Mapping[str, tuple[dict[str, str], dict[str, str]]] = {
    "RuntallyDown": ({'up{job="runtally",instance="a"}': "0x40"}, PER_PROCESS),
    "RuntallyNoPlaces": ({'runtally_places{instance="a"}': "0x40"}, {}),
    "RuntallyMemoryNearCeiling": (
        {"runtally_memory_resident_bytes": "95x40", "runtally_memory_ceiling_bytes": "100x40"},
        {},
    ),
    "RuntallyEventLoopBlocked": ({"runtally_event_loop_lag_seconds_sum": "0+9x40"}, {}),
    "RuntallyDatabasePoolExhausted": (
        {
            "runtally_database_waiting": "3x40",
            "runtally_database_connections_in_use": "8x40",
            "runtally_database_connections_limit": "8x40",
        },
        {},
    ),
    "RuntallyDatabaseFailing": ({'runtally_database_failing{instance="a"}': "1x40"}, {"instance": "a"}),
    "RuntallyRelayUnavailable": ({'runtally_relay_available{instance="a"}': "0x40"}, {"instance": "a"}),
    "RuntallyMetricsUnavailable": (
        {
            'runtally_metrics_available{instance="a",part="fleet"}': "0x40",
            'runtally_metrics_available{instance="a",part="webhooks"}': "1x40",
        },
        {"part": "fleet"},
    ),
    "RuntallyQueueWait": ({'runtally_oldest_ready_seconds{instance="a"}': "31x40"}, {}),
    "RuntallyNoFreePlaces": ({"runtally_places_free": "0x40", "runtally_runs_ready": "1x40"}, {}),
    "RuntallyRunsFail": (
        {
            'runtally_runs_ended_total{error="internal"}': "0+2x40",
            'runtally_runs_ended_total{error="none"}': "0+8x40",
        },
        {},
    ),
    "RuntallyEventLogLag": ({"runtally_event_log_lag_seconds": "11x40"}, {}),
    "RuntallyObjectsUnavailable": (
        {'runtally_object_failures_total{instance="a",reason="unavailable"}': "0+1x40"},
        {"instance": "a", "reason": "unavailable"},
    ),
    "RuntallyContentLost": (
        {'runtally_object_failures_total{instance="a",reason="lost"}': "0x25 1x15"},
        {"instance": "a", "reason": "lost"},
    ),
    "RuntallyProviderFailing": (
        {
            'runtally_provider_responses_total{status="529"}': "0+2x40",
            'runtally_provider_responses_total{status="unreachable"}': "0+1x40",
            'runtally_provider_responses_total{status="200"}': "0+7x40",
        },
        {},
    ),
    "RuntallyProviderRefuses": (
        {'runtally_provider_refusals_total{code="organization_on_hold"}': "0+1x40"},
        {"code": "organization_on_hold"},
    ),
    "RuntallyProviderRateLimitNear": (
        {
            'runtally_provider_ratelimit_remaining{kind="tokens",model="m",instance="a"}': "9x40",
            'runtally_provider_ratelimit_limit{kind="tokens",model="m",instance="a"}': "100x40",
            'runtally_provider_ratelimit_remaining{kind="requests",model="m",instance="a"}': "90x40",
            'runtally_provider_ratelimit_limit{kind="requests",model="m",instance="a"}': "100x40",
        },
        {"kind": "tokens", "model": "m"},
    ),
    "RuntallyReceiptsNotStored": ({"runtally_receipts_oldest_pending_seconds": "61x40"}, {}),
    "RuntallyReceiptsRefused": ({"runtally_receipts_refused": "1x40"}, {}),
    "RuntallyJournalNotWritable": ({"runtally_journal_writable": "0x40"}, {}),
    "RuntallyJournalDamaged": ({"runtally_journal_damaged_files": "1x40"}, {}),
    "RuntallyMetersDisagree": ({"runtally_drift_messages_total": "0x25 1x15"}, {}),
    "RuntallyUnpricedMessages": ({"runtally_unpriced_messages_total": "0x25 1x15"}, {}),
    "RuntallyReconciliationDifferences": ({"runtally_reconciliation_unexplained_differences": "1x40"}, {}),
    "RuntallyWrongPrices": ({"runtally_reconciliation_wrong_prices": "1x40"}, {}),
    "RuntallyReconciliationStale": (
        {"runtally_reconciliation_compared_until_timestamp_seconds": "-9000x40"},
        {},
    ),
    "RuntallyWebhookBacklog": ({"runtally_webhook_overdue_seconds": "301x40"}, {}),
}
"""By alert: series that let it fire after half an hour, a value for each minute, and its labels then."""

HEALTHY = {
    'up{job="runtally",instance="a"}': "1x40",
    "runtally_places": "8x40",
    "runtally_places_free": "0x40",
    "runtally_runs_ready": "0x40",
    "runtally_oldest_ready_seconds": "5x40",
    'runtally_metrics_available{instance="a",part="fleet"}': "1x40",
    "runtally_memory_resident_bytes": "80x40",
    "runtally_memory_ceiling_bytes": "100x40",
    "runtally_event_loop_lag_seconds_sum": "0+1x40",
    "runtally_database_failing": "0x40",
    "runtally_relay_available": "1x40",
    "runtally_database_waiting": "3x40",
    "runtally_database_connections_in_use": "7x40",
    "runtally_database_connections_limit": "8x40",
    'runtally_runs_ended_total{error="aborted"}': "0+9x40",
    'runtally_runs_ended_total{error="internal"}': "0x40",
    "runtally_event_log_lag_seconds": "1x40",
    'runtally_object_failures_total{reason="unavailable"}': "3x40",
    'runtally_object_failures_total{reason="lost"}': "1x40",
    'runtally_provider_responses_total{status="200"}': "0+8x40",
    'runtally_provider_responses_total{status="400"}': "0+8x40",
    'runtally_provider_ratelimit_remaining{kind="tokens",model="m"}': "20x40",
    'runtally_provider_ratelimit_limit{kind="tokens",model="m"}': "100x40",
    "runtally_receipts_oldest_pending_seconds": "5x40",
    "runtally_receipts_refused": "0x40",
    "runtally_journal_writable": "1x40",
    "runtally_disk_writable": "1x40",
    "runtally_journal_damaged_files": "0x40",
    "runtally_drift_messages_total": "4x40",
    "runtally_drift_usd_total": "0x40",
    "runtally_unpriced_messages_total": "4x40",
    "runtally_reconciliation_unexplained_differences": "0x40",
    "runtally_reconciliation_wrong_prices": "0x40",
    "runtally_reconciliation_failed": "0x40",
    "runtally_reconciliation_compared_until_timestamp_seconds": "-600+60x40",
    "runtally_webhook_overdue_seconds": "2x40",
}
"""Series of a server to which nothing happens."""


def test_each_alert_has_its_page_and_each_page_its_alert() -> None:
    pages = re.findall(r"^### (Runtally\w+)$", PAGE.read_text("utf-8"), re.MULTILINE)

    assert sorted(pages) == sorted(ALERTS)
    for name, rule in ALERTS.items():
        url, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert url.endswith(PAGE.name)
        assert anchor == name.lower()
        assert anchor in anchors(PAGE)


def test_each_page_says_what_it_means_what_to_look_at_and_what_to_do() -> None:
    sections = re.split(r"^### ", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]

    assert [
        section.partition("\n")[0]
        for section in sections
        if not all(f"**{part}**" in section for part in ("Means", "Look at", "Do"))
    ] == []


def test_each_alert_has_a_severity_and_says_what_happens() -> None:
    for rule in ALERTS.values():
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["description"].endswith(".")


@pytest.mark.parametrize("expression", [rule["expr"] for rule in ALERTS.values()], ids=list(ALERTS))
def test_alerts_are_promql(expression: str) -> None:
    promql_parser.parse(expression)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_panels_are_promql_of_the_chosen_source(panel: dict[str, Any]) -> None:
    source = {"type": "prometheus", "uid": "${datasource}"}

    assert panel["datasource"] == source
    for target in panel["targets"]:
        assert target["datasource"] == source
        promql_parser.parse(target["expr"].replace("$__rate_interval", "1m"))


def test_the_dashboard_can_be_imported() -> None:
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    places = [tuple(panel["gridPos"][side] for side in "xy") for panel in DASHBOARD["panels"]]

    assert variables["datasource"]["type"] == "datasource"
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(PANELS))) <= {*variables, "__rate_interval"}
    assert len(set(ids)) == len(ids) == len(set(places))
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in PANELS)


def promtool(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    require("promtool")
    return subprocess.run(
        ["promtool", *arguments],  # noqa: S607 - wherever it is installed
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_promtool_accepts_rules_and_configuration() -> None:
    found = promtool("check", "config", "prometheus.yml", cwd=FOLDER)

    assert found.returncode == 0, found.stderr


def case(series: Mapping[str, str], expected: Mapping[str, list[Any]]) -> dict[str, Any]:
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": "35m", "alertname": name, "exp_alerts": alerts} for name, alerts in expected.items()
        ],
    }


def test_each_alert_fires_when_it_should_and_none_for_a_healthy_server(tmp_path: Path) -> None:
    fires = [
        case(
            series,
            {
                name: [
                    {
                        "exp_labels": {**labels, **ALERTS[name]["labels"]},
                        "exp_annotations": ALERTS[name]["annotations"],
                    }
                ]
            },
        )
        for name, (series, labels) in FIRING.items()
    ]
    tests = {
        "rule_files": [str(FOLDER / "alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [*fires, case(HEALTHY, {name: [] for name in ALERTS})],
    }
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(tests))

    assert FIRING.keys() == ALERTS.keys()
    found = promtool("test", "rules", "tests.yml", cwd=tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr
