"""The container files are sound, as far as can be told without an engine."""

import re
import subprocess
from typing import Any

import pytest
import yaml

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


SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_confined_and_has_limits(name: str) -> None:
    service = SERVICES[name]

    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["read_only"] is True
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["pids_limit"] > 0
    assert service["mem_limit"] == service["memswap_limit"]
    assert service.get("user") != "root"
    assert all("size=" in place for place in service["tmpfs"])


def test_no_password_or_key_has_a_default() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    names = {"POSTGRES_PASSWORD", "REDIS_PASSWORD", "ANTHROPIC_API_KEY", "RUNTALLY_BOOTSTRAP_KEY"}

    for name in names:
        used = re.findall(rf"\$\{{?{name}(..)", text)
        assert used
        assert set(used) == {":?"}
    for line in text.splitlines():
        if re.search(r"password|api_key|bootstrap_key|://", line, re.IGNORECASE) and "#" not in line:
            assert "${" in line or "://127.0.0.1" in line, line


def test_only_the_server_can_be_reached_and_from_this_machine_only() -> None:
    ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}

    assert ports == {"app": ["127.0.0.1:8000:8000"]}
    assert SERVICES["postgres"]["networks"] == SERVICES["redis"]["networks"] == ["inside"]


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_of_others_can_be_pinned_by_its_digest(name: str) -> None:
    service = SERVICES[name]

    base = service["build"]["args"]["BASE_IMAGE"] if "build" in service else service["image"]
    assert re.fullmatch(r"\$\{(BASE|POSTGRES|REDIS)_IMAGE:-[a-z]+:[0-9][a-z0-9.-]*\}", base)
