"""Linters and generators of other people read the OpenAPI document without errors, and lose nothing."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from app.http.app import documented_app
from tests.clients.node import node

NOT_APPLICABLE = {
    # OpenAPI 3.1 cannot refer to the events of a stream, so no operation uses their schemas.
    "no-unused-components",
    # The project has no address.
    "info-contact",
}
METHODS = {"get", "put", "post", "delete", "patch"}


def operation_ids(document: dict[str, Any]) -> set[str]:
    return {
        operation["operationId"]
        for path in document["paths"].values()
        for method, operation in path.items()
        if method in METHODS
    }


async def test_the_linters_report_nothing() -> None:
    document = documented_app().openapi()

    problems = json.loads(await node("lint_api.mjs", given=json.dumps(document)))

    assert [problem for problem in problems if problem["rule"] not in NOT_APPLICABLE] == []


def test_a_python_client_is_generated_whole(tmp_path: Path) -> None:
    document = documented_app().openapi()
    source, target = tmp_path / "openapi.json", tmp_path / "generated"
    source.write_text(json.dumps(document))
    # Formatting the result is of no interest here.
    (tmp_path / "config.json").write_text('{"post_hooks": []}')
    options = [f"--path={source}", f"--output-path={target}", "--config=config.json", "--meta=none"]

    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", "--fail-on-warning", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for path in target.rglob("*.py"):
        ast.parse(path.read_text())
    generated = {path.stem for path in target.glob("api/*/*.py")}
    assert operation_ids(document) <= generated
