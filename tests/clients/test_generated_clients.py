"""Linters and generators of other people read the OpenAPI document without errors, and lose nothing."""

import importlib.resources
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.http.admission.checks import JSON_LINES
from tests.api_document import api_document
from tests.clients.node import install, node
from tests.programs import require

pytestmark = pytest.mark.long

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
    document = api_document()

    problems = json.loads(await node("lint_api.mjs", given=json.dumps(document)))

    assert [problem for problem in problems if problem["rule"] not in NOT_APPLICABLE] == []


def test_a_python_client_is_generated_whole(tmp_path: Path) -> None:
    document = api_document()
    source, target = tmp_path / "openapi.json", tmp_path / "generated"
    source.write_text(json.dumps(document))
    # Formatting the result is of no interest here. Lines of JSON and archives are bytes to the generator.
    types = [*JSON_LINES, "application/zip", "application/x-tar"]
    overrides = dict.fromkeys(types, "application/octet-stream")
    config = {"post_hooks": [], "content_type_overrides": overrides}
    (tmp_path / "config.json").write_text(json.dumps(config))
    options = [f"--path={source}", f"--output-path={target}", "--config=config.json", "--meta=none"]

    generate = [sys.executable, "-m", "openapi_python_client", "generate", "--fail-on-warning"]
    done = program(*generate, *options, directory=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    import_all("generated", tmp_path)
    generated = {path.stem for path in target.glob("api/*/*.py")}
    assert operation_ids(document) <= generated


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the clients of openapi-generator: `python` and `typescript-fetch`."""
    require("java")
    directory = tmp_path_factory.mktemp("openapi-generator")
    (directory / "openapi.json").write_text(json.dumps(api_document()))
    left_out = dict.fromkeys(("apiDocs", "modelDocs", "apiTests", "modelTests"), "false")
    for name in ("python", "typescript-fetch"):
        parts = {"apis": "", "models": "", "supportingFiles": "", **left_out}
        config = {"generatorName": name, "inputSpec": "openapi.json", "outputDir": name}
        (directory / f"{name}.json").write_text(json.dumps({**config, "globalProperties": parts}))
    jar = importlib.resources.files("openapi_generator_cli") / "openapi-generator.jar"
    # For one short use, both in one process.
    java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", str(jar)]
    done = program(*java, "batch", "python.json", "typescript-fetch.json", directory=directory)
    assert "2 generators successfully" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    return directory


def test_the_python_client_of_openapi_generator_is_whole(generated: Path) -> None:
    import_all("openapi_client", generated / "python")
    names = {name.lower() for name in operation_ids(api_document())}
    assert names <= methods_below(generated / "python" / "openapi_client" / "api")


async def test_the_typescript_client_of_openapi_generator_is_whole(generated: Path) -> None:
    compiler = str(install() / "typescript/bin/tsc")
    options = ["--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck"]
    await node(
        compiler,
        *options,
        "--lib",
        "es2022,dom",
        "--noEmit",
        str(generated / "typescript-fetch" / "index.ts"),
    )

    names = {name.lower().replace("_", "") for name in operation_ids(api_document())}
    assert names <= methods_below(generated / "typescript-fetch" / "apis")


def methods_below(directory: Path) -> set[str]:
    """The methods of the classes in the sources of a directory, in small letters."""
    written = "".join(path.read_text() for path in directory.iterdir() if path.is_file())
    return {name.lower() for name in re.findall(r"^    (?:def|async) (\w+)\(", written, re.MULTILINE)}


def import_all(package: str, directory: Path) -> None:
    """Import each module of a package, in a process of its own."""
    names = f"pkgutil.walk_packages({package}.__path__, '{package}.')"
    importing = f"for each in {names}: importlib.import_module(each.name)"
    done = program(
        *(sys.executable, "-c", f"import importlib, pkgutil, {package}\n{importing}"), directory=directory
    )
    assert done.returncode == 0, done.stderr


def program(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in this directory."""
    return subprocess.run(arguments, cwd=directory, capture_output=True, text=True, check=False)
