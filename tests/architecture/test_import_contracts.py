"""The import contracts are kept, and each of them bites."""

import os
import shutil
import subprocess
from pathlib import Path

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
    "pure": {"app/http/native/encoder.py": "import asyncio"},
    "public": {"runtally/tools/planted.py": "import app.ids\nimport app.runs.service"},
    "client": {"app/http/planted.py": "import runtally.client\nimport runtally.protocol.calls"},
    "private-sql": {"app/runs/planted.py": "import app.billing.receipts.repository"},
}
"""One violation of each contract, as files to write into a copy of the project."""


def lint_imports(tree: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Check the imports of the `app` in this directory."""
    return subprocess.run(
        [BIN / "lint-imports", "--no-cache", "--no-logo", *options],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project to plant violations in."""
    tree = tmp_path_factory.mktemp("planted")
    for package in ("app", "runtally"):
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    return tree


def test_every_contract_is_kept(copied: Path) -> None:
    result = lint_imports(copied)

    assert result.returncode == 0, result.stdout + result.stderr


def test_every_contract_has_a_violation_to_be_tried_with() -> None:
    assert PLANTS.keys() == CONTRACTS.keys()


@pytest.mark.parametrize("contract", sorted(PLANTS))
def test_a_violation_breaks_its_contract(copied: Path, contract: str) -> None:
    planted = {copied / name: source for name, source in PLANTS[contract].items()}
    replaced = {path: path.read_text("utf-8") for path in planted if path.exists()}
    try:
        for path, source in planted.items():
            path.write_text(f"{source}\n", encoding="utf-8")
        result = lint_imports(copied, "--contract", contract)
    finally:
        for path in planted:
            path.unlink(missing_ok=True)
        for path, source in replaced.items():
            path.write_text(source, encoding="utf-8")

    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{CONTRACTS[contract]['name']} BROKEN" in result.stdout
    for source in PLANTS[contract].values():
        for line in source.splitlines():
            assert line.rpartition(".")[2].removeprefix("import ") in result.stdout


@pytest.mark.parametrize(("contract", "within"), [("layers", "app"), ("platform", "app/platform")])
def test_a_new_package_fails_until_it_has_a_layer(copied: Path, contract: str, within: str) -> None:
    package = copied / within / "planted"
    package.mkdir()
    try:
        (package / "__init__.py").touch()
        result = lint_imports(copied, "--contract", contract)
    finally:
        shutil.rmtree(package)

    assert result.returncode == 1, result.stdout + result.stderr
    assert "planted" in result.stdout
