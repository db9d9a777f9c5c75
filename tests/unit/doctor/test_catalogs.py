from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.bootstrap.catalogs import open_planner
from app.doctor.catalogs import check_catalogs
from app.platform.settings import Settings
from tests.unit.tools.extensions.packages import install

ENDING = "claude-sonnet-4-5"


def test_a_configured_model_that_ends_is_a_warning_with_its_date() -> None:
    settings = Settings.load(_env_file=None, RUNTALLY_DEFAULT_MODEL=ENDING)

    checks = check_catalogs(settings).checks

    (warning,) = [check for check in checks if check.status != "ok"]
    assert (warning.name, warning.status) == ("models", "warning")
    assert ENDING in warning.detail
    assert "2026-11-30" in warning.detail


def test_the_server_warns_of_it_at_startup_too() -> None:
    with capture_logs() as logs:
        open_planner(Settings.load(_env_file=None, RUNTALLY_DEFAULT_MODEL=ENDING))
        open_planner(Settings.load(_env_file=None))

    (warning,) = logs
    assert warning["log_level"] == "warning"
    assert "2026-11-30" in warning["problem"]


@pytest.mark.parametrize(
    ("value", "status", "detail"),
    [("Audit", "ok", "hooks 'audit'"), ("Missing", "error", "The entry point 'audit' of the group")],
)
def test_installed_hooks_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, status: str, detail: str
) -> None:
    install(tmp_path, monkeypatch, hooks={"audit": f"tests.unit.tools.extensions.samples:{value}"})

    checks = check_catalogs(Settings.load(_env_file=None)).checks

    (found,) = [check for check in checks if check.name == "extensions"]
    assert (found.status, found.detail[: len(detail)]) == (status, detail)
