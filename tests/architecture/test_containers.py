"""The container files are sound, as far as can be told without an engine."""

import subprocess

from tests.architecture.tree import BIN, ROOT


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the virtual environment in the project's directory."""
    return subprocess.run(
        [BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    result = run("hadolint", "Dockerfile")

    assert result.returncode == 0, result.stdout + result.stderr


def test_the_compose_file_follows_the_specification() -> None:
    result = run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml")

    assert result.returncode == 0, result.stdout + result.stderr
