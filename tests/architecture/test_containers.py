"""The container files are sound, as far as can be told without an engine."""

import re
import subprocess
from typing import Any

import pytest
import yaml

from app.platform.settings import Settings
from tests.architecture.tree import BIN, ROOT

DEFAULT_DRAIN_S = Settings.model_fields["drain_s"].default
STOP_S = 60
"""What stopping takes after the active runs had their time: handing over, stopping, delivering receipts."""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the virtual environment in the project's directory."""
    return subprocess.run(
        [BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    result = run("hadolint", "Dockerfile")

    assert result.returncode == 0, result.stdout + result.stderr


FILES = ("docker-compose.yml", "deploy/compose.fleet.yml")
COMPOSED: dict[str, dict[str, dict[str, Any]]] = {
    name: yaml.safe_load((ROOT / name).read_text())["services"] for name in FILES
}
SERVICES = [
    pytest.param(service, id=f"{file}-{name}")
    for file, services in COMPOSED.items()
    for name, service in services.items()
]
FLEET = COMPOSED["deploy/compose.fleet.yml"]
SECRETS = ("ANTHROPIC_API_KEY", "ANTHROPIC_ADMIN_API_KEY", "RUNTALLY_BOOTSTRAP_KEY")


@pytest.mark.parametrize("file", FILES)
def test_a_compose_file_follows_the_specification(file: str) -> None:
    result = run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", file)

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_is_confined_and_has_limits(service: dict[str, Any]) -> None:
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["read_only"] is True
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["pids_limit"] > 0
    assert service["mem_limit"] == service["memswap_limit"]
    assert service.get("user") != "root"
    assert all("size=" in place for place in service["tmpfs"])


@pytest.mark.parametrize("file", FILES)
def test_no_password_or_key_has_a_default(file: str) -> None:
    text = (ROOT / file).read_text()

    for name in ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "ANTHROPIC_API_KEY", "RUNTALLY_BOOTSTRAP_KEY"):
        used = re.findall(rf"\$\{{?{name}(..)", text)
        assert used
        assert set(used) == {":?"}
    for line in text.splitlines():
        if re.search(r"password|api_key|bootstrap_key|://", line, re.IGNORECASE) and "#" not in line:
            assert "${" in line or "://127.0.0.1" in line or line.endswith(': ""'), line


@pytest.mark.parametrize(("file", "front"), [(FILES[0], "app"), (FILES[1], "proxy")])
def test_only_the_server_can_be_reached_and_from_this_machine_only(file: str, front: str) -> None:
    services = COMPOSED[file]
    ports = {name: service["ports"] for name, service in services.items() if "ports" in service}

    assert ports == {front: ["127.0.0.1:8000:8000"]}
    stores = services.keys() & {"postgres", "redis", "valkey"}
    assert len(stores) == 2
    assert all(services[name]["networks"] == ["inside"] for name in stores)


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_of_others_can_be_pinned_by_its_digest(service: dict[str, Any]) -> None:
    base = service["build"]["args"]["BASE_IMAGE"] if "build" in service else service["image"]
    names = "BASE|POSTGRES|REDIS|VALKEY|NGINX"
    assert re.fullmatch(rf"\$\{{({names})_IMAGE:-[a-z]+(/[a-z]+)?:[0-9][a-z0-9.-]*\}}", base)


def test_each_part_of_the_fleet_has_only_the_secrets_and_networks_it_needs() -> None:
    networks = yaml.safe_load((ROOT / FILES[1]).read_text())["networks"]
    shielded = {name for name, network in networks.items() if (network or {}).get("internal")}
    secrets = {
        name: {secret for secret in SECRETS if FLEET[name]["environment"][secret]}
        for name in ("migrate", "api", "worker")
    }

    assert secrets == {
        "migrate": set(),
        "api": {"RUNTALLY_BOOTSTRAP_KEY"},
        "worker": {"ANTHROPIC_API_KEY", "ANTHROPIC_ADMIN_API_KEY"},
    }
    assert {name for name, service in FLEET.items() if set(service["networks"]) - shielded} == {
        "worker",
        "proxy",
    }
    # Through the proxy alone, whose addresses are those that may name a client's.
    assert "inside" not in FLEET["proxy"]["networks"]
    (subnet,) = [each["subnet"] for each in networks["front"]["ipam"]["config"]]
    assert FLEET["api"]["environment"]["FORWARDED_ALLOW_IPS"] == subnet


def test_the_fleet_has_two_of_each_role_and_time_to_stop() -> None:
    grace_s = {
        f"{file} {name}": int(service["stop_grace_period"].removesuffix("s"))
        for file, services in COMPOSED.items()
        for name, service in services.items()
        if "runtally" in service["image"] and service.get("restart") != "no"
    }

    assert len(grace_s) == 3
    assert min(grace_s.values()) >= DEFAULT_DRAIN_S + STOP_S
    for role in ("api", "worker"):
        assert FLEET[role]["deploy"]["replicas"] == 2
        assert FLEET[role]["command"] == ["runtally", role, "--host", "0.0.0.0"]  # noqa: S104
        assert FLEET[role]["environment"].items() >= FLEET["migrate"]["environment"].items() - {
            (name, "") for name in SECRETS
        }


def test_workers_keep_their_journals_and_the_proxy_streams() -> None:
    conf = (ROOT / "deploy" / "nginx.conf").read_text()

    assert FLEET["worker"]["volumes"] == ["workers:/var/lib/runtally"]
    assert FLEET["worker"]["environment"]["RUNTALLY_DATA_DIR"] == "/var/lib/runtally"
    assert FLEET["proxy"]["volumes"] == ["./deploy/nginx.conf:/etc/nginx/fleet.conf:ro"]
    for line in (
        *("proxy_buffering off;", "proxy_request_buffering off;", "client_max_body_size 0;"),
        *("proxy_set_header X-Forwarded-For $remote_addr;", "set $api api:8000;", "listen 8000;"),
    ):
        assert f" {line}\n" in conf
