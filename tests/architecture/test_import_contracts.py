"""Each import contract finds violations; `make check` tells whether they are kept."""

import os
import re
import shutil
import subprocess

import pytest

from tests.architecture.tree import BIN, ROOT, pyproject

CONTRACTS = {contract["id"]: contract for contract in pyproject()["tool"]["importlinter"]["contracts"]}

PLANTS = {
    "layers": {"app/tools/planted.py": "import app.runs.service"},
    "platform": {"app/platform/logs/planted.py": "import app.platform.db"},
    "routes": {"app/http/api/keys/command_routes.py": "import app.http.api.runs.routes"},
    "cycles": {
        "app/tools/planted.py": "import app.tools.planted_too",
        "app/tools/planted_too.py": "import app.tools.planted",
    },
    "settings": {"app/billing/planted.py": "import app.platform.settings"},
    "tables": {"app/billing/planted.py": "import app.billing.receipts.tables"},
    "sql": {"app/runs/planted.py": "import sqlalchemy\nimport asyncpg"},
    "repositories": {
        "app/http/planted.py": "import app.runs.repository\nimport app.billing.reports.usage_repository"
    },
    "vendors": {
        "app/tools/planted.py": "\n".join(
            f"import {vendor}" for vendor in CONTRACTS["vendors"]["forbidden_modules"]
        )
    },
    "executors": {"app/executors/messages_api/planted.py": "import app.executors.claude_agent.auth"},
    "sandboxes": {"app/executors/planted.py": "import app.executors.claude_agent.sandbox.bubblewrap"},
    "pure": {"app/http/native/encoder.py": "import asyncio"},
    "public": {"runtally/tools/planted.py": "import app.ids\nimport app.runs.service"},
    "client": {"app/http/planted.py": "import runtally.client\nimport runtally.protocol.calls"},
    "private-sql": {"app/runs/planted.py": "import app.billing.receipts.repository"},
}
"""One violation of each contract, as files to write into a copy of the project: all of them at once."""

NEW_PACKAGES = {"layers": "app", "platform": "app/platform"}
"""Contracts that list every layer, and where a package is added that they do not list."""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is reported of each broken contract, by its name, once all violations are there."""
    tree = tmp_path_factory.mktemp("planted")
    for package in ("app", "runtally"):
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    for name in {name for files in PLANTS.values() for name in files}:
        sources = [files[name] for files in PLANTS.values() if name in files]
        (tree / name).write_text("\n".join(sources) + "\n", encoding="utf-8")
    for folder in NEW_PACKAGES.values():
        (tree / folder / "new_package").mkdir()
        (tree / folder / "new_package" / "__init__.py").touch()
    result = subprocess.run(
        [BIN / "lint-imports", "--no-cache", "--no-logo"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1, result.stdout + result.stderr
    _, *parts = re.split(r"^(.+)\n-+\n$", result.stdout, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_every_contract_has_a_violation_to_be_tried_with() -> None:
    assert PLANTS.keys() == CONTRACTS.keys()


@pytest.mark.parametrize("contract", sorted(PLANTS))
def test_a_violation_breaks_its_contract(broken: dict[str, str], contract: str) -> None:
    report = broken[CONTRACTS[contract]["name"]]

    for source in PLANTS[contract].values():
        for line in source.splitlines():
            assert line.rpartition(".")[2].removeprefix("import ") in report


@pytest.mark.parametrize("contract", NEW_PACKAGES)
def test_a_new_package_fails_until_it_has_a_layer(broken: dict[str, str], contract: str) -> None:
    assert "new_package" in broken[CONTRACTS[contract]["name"]]
