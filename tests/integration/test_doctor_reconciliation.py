"""What `runtally doctor` reports about the admin key, before a comparison fails with it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from app.doctor.reconciliation import check_reconciliation
from app.doctor.report import Check, without_secrets
from app.platform.settings import Settings
from app.simulator.script import HttpError, in_turn
from app.simulator.server import RecordedMessage
from tests.e2e.stories import PROVIDER_KEY, the_settings
from tests.provider.admin_reports import AnsweredCall, key_id
from tests.provider.simulator import ReportingSimulator

ADMIN_KEY = "sk-ant-admin-simulated"
NOWHERE = "http://127.0.0.1:1"


def settings_with(directory: Path, url: str, **settings: Any) -> Settings:
    return the_settings(
        directory,
        "postgresql://unused",
        NOWHERE,
        **{"ANTHROPIC_ADMIN_BASE_URL": url, "ANTHROPIC_ADMIN_API_KEY": ADMIN_KEY, **settings},
    )


async def checked(directory: Path, simulator: ReportingSimulator, **settings: Any) -> Check:
    """The check, and nothing secret in it."""
    chosen = settings_with(directory, simulator.url, **settings)
    check = await check_reconciliation(chosen)
    assert without_secrets([check], chosen) == [check]
    return check


USAGE, KEYS = "usage_report/messages", "api_keys"
OUR_KEY_ID = {"RUNTALLY_PROVIDER_KEY_IDS": key_id(PROVIDER_KEY)}
LOCAL_SESSION = {"RUNTALLY_CLAUDE_AUTH": "local_session", "ANTHROPIC_API_KEY": None}


@pytest.mark.parametrize(
    ("settings", "status", "detail", "requests"),
    [
        pytest.param(OUR_KEY_ID, "ok", "http://", [USAGE], id="key ids that are set are not looked up"),
        pytest.param(
            {"ANTHROPIC_ADMIN_API_KEY": None},
            *("warning", "ANTHROPIC_ADMIN_API_KEY is not set", []),
            id="a missing key is not sent",
        ),
        pytest.param(
            {"ANTHROPIC_ADMIN_API_KEY": PROVIDER_KEY},
            *("error", "are the same key", []),
            id="the key of the runs is not sent",
        ),
        pytest.param(
            {"ANTHROPIC_ADMIN_API_KEY": "sk-ant-admin-other"},
            *("error", "create an admin key", [USAGE]),
            id="an admin key of another organization",
        ),
        pytest.param(
            {}, "error", "set RUNTALLY_PROVIDER_KEY_IDS", [USAGE, KEYS], id="our key is not in the list"
        ),
        pytest.param(
            LOCAL_SESSION, "error", "set RUNTALLY_PROVIDER_KEY_IDS", [USAGE], id="a session has no key"
        ),
    ],
)
async def test_the_keys_are_checked_with_small_requests(
    tmp_path: Path, settings: Mapping[str, Any], status: str, detail: str, requests: list[str]
) -> None:
    async with ReportingSimulator(in_turn()) as simulator:
        check = await checked(tmp_path, simulator, **settings)

    assert (check.status, detail in check.detail) == (status, True), check
    assert simulator.reports.requests == requests


@pytest.mark.parametrize(
    ("failure", "detail"),
    [
        (HttpError(401), "the provider does not accept ANTHROPIC_ADMIN_API_KEY"),
        (HttpError(403), "needs an admin key of the organization"),
        (HttpError(404), "the provider's Admin API"),
        (HttpError(302), "(/v1/organizations/usage_report/messages: 302) Check ANTHROPIC_ADMIN_BASE_URL"),
    ],
)
async def test_a_key_that_is_not_accepted_is_an_error_with_its_reason(
    tmp_path: Path, failure: HttpError, detail: str
) -> None:
    async with ReportingSimulator(in_turn()) as simulator:
        simulator.reports.failures.append(failure)
        check = await checked(tmp_path, simulator)

    assert (check.status, detail in check.detail) == ("error", True), check
    assert simulator.reports.requests == [USAGE]


@pytest.mark.parametrize("page", [{"data": {}}, [], {}])
async def test_an_answer_that_is_no_report_is_an_error(tmp_path: Path, page: Any) -> None:
    async with ReportingSimulator(in_turn()) as simulator:
        simulator.reports.overridden = page
        check = await checked(tmp_path, simulator)

    assert (check.status, "unknown form" in check.detail) == ("error", True), check


async def test_an_accepted_key_is_ok_also_after_a_failure_that_passes(tmp_path: Path) -> None:
    message = RecordedMessage("msg", "claude-sonnet-4-6", {"input_tokens": 1}, final_usage={})
    async with ReportingSimulator(in_turn()) as simulator:
        simulator.reports.calls.append(AnsweredCall(message, PROVIDER_KEY))
        simulator.reports.failures.append(HttpError(429, headers={"retry-after": "0"}))
        check = await checked(tmp_path, simulator)

    assert (check.status, simulator.url in check.detail) == ("ok", True), check
    assert set(simulator.reports.requests) == {USAGE, KEYS}


async def test_a_host_that_cannot_be_reached_is_named_with_what_to_do(tmp_path: Path) -> None:
    chosen = settings_with(tmp_path, "http://me:url-secret@127.0.0.1:1")
    (check,) = without_secrets([await check_reconciliation(chosen)], chosen)

    assert check.status == "error"
    assert "ConnectError" in check.detail
    assert "Check ANTHROPIC_ADMIN_BASE_URL (http://me:[hidden]@127.0.0.1:1)" in check.detail
