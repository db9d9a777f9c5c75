""".env.example and the settings say the same."""

import os
import re
from pathlib import Path

import pytest
from dotenv import dotenv_values

from app.platform.issuers.persons import OidcSettings
from app.platform.setting_groups.network import NetworkSettings
from app.platform.setting_groups.origins import OriginSettings
from app.platform.setting_groups.telemetry import TelemetrySettings
from app.platform.settings import SECRETS, Settings, SettingsError
from tests.architecture.test_documentation import documents
from tests.architecture.tree import ROOT

EXAMPLE = ROOT / ".env.example"
LAST = [
    *(*TelemetrySettings.model_fields, *OriginSettings.model_fields),
    *(*OidcSettings.model_fields, *NetworkSettings.model_fields),
]
IN_ORDER = [*(name for name in Settings.model_fields if name not in LAST), *LAST]
VARIABLES = [str(Settings.model_fields[name].validation_alias) for name in IN_ORDER]
"""Few need those of telemetry, other origins, the sign-in of people and the network: they are last."""


@pytest.fixture(autouse=True)
def _nothing_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper() in VARIABLES:
            monkeypatch.delenv(name)


def test_the_example_lists_every_setting_in_their_order() -> None:
    assert list(dotenv_values(EXAMPLE)) == VARIABLES


def test_the_example_gives_every_default() -> None:
    written = {name for name, value in dotenv_values(EXAMPLE).items() if value}
    defaults = {
        str(field.validation_alias)
        for field in Settings.model_fields.values()
        if field.default not in (None, ())
    }

    assert written == defaults
    assert Settings.load(_env_file=EXAMPLE) == Settings.load(_env_file=None)


def test_the_example_explains_every_setting_in_one_line() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()

    for line, explanation in zip(lines[1:], lines, strict=False):
        if line and not line.startswith("#"):
            assert explanation.startswith("# "), line


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"RUNTALLY_MARKUP=\xff")

    with pytest.raises(SettingsError, match=r"\.env is not UTF-8"):
        Settings.load(_env_file=tmp_path / ".env")


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("RUNTALLY_MAX_QUEUED_RUNS=1\nRUNTALLY_RUN_TIMEOUT_S=2\n")
    monkeypatch.setenv("RUNTALLY_MAX_QUEUED_RUNS", "3")
    settings = Settings.load(_env_file=tmp_path / ".env")

    assert (settings.max_queued_runs, settings.run_timeout_s) == (3, 2)


def test_documents_name_settings_that_exist() -> None:
    files = {f"{name}_FILE" for name in SECRETS}
    # The last one is misspelt on purpose.
    others = {"RUNTALLY_URL", "RUNTALLY_API_KEY", "RUNTALLY_TESTS_SCREENSHOTS", "RUNTALLY_MARKUPP"}
    wrong = [
        f"{document.name}: {name}"
        for document in documents()
        if document.parent.name != "decisions"
        for name in re.findall(
            r"\b(?:RUNTALLY|DATABASE|TEMPORAL)_[A-Z_]*[A-Z]\b", document.read_text("utf-8")
        )
        if name not in {*VARIABLES, *files, *others}
    ]
    assert wrong == []
