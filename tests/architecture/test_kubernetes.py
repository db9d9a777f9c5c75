"""The Kubernetes manifests name what exists, as far as can be told without a cluster."""

import re
from typing import Any

import pytest
import yaml

from app.cli.main import app
from app.doctor.variables import KNOWN
from tests.architecture.test_containers import STOP_S
from tests.architecture.tree import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
SEPARATE = {"kustomization.yaml", "secrets.example.yaml", "keda.yaml"}
COMMANDS = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
VARIABLES = set(KNOWN)
PATHS = {"/healthz", "/readyz"}

MANIFESTS: dict[tuple[str, str], dict[str, Any]] = {
    (document["kind"], document["metadata"]["name"]): document
    for path in sorted(FOLDER.glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for document in yaml.safe_load_all(path.read_text("utf-8"))
}
WORKLOADS = {key: each for key, each in MANIFESTS.items() if key[0] in {"Deployment", "StatefulSet", "Job"}}
WORKER = MANIFESTS["StatefulSet", "runtally-worker"]["spec"]["template"]["spec"]
SETTINGS: dict[str, str] = MANIFESTS["ConfigMap", "runtally-settings"]["data"]
SCALED = MANIFESTS["ScaledObject", "runtally-worker"]["spec"]


def pod(workload: dict[str, Any]) -> dict[str, Any]:
    """The pod of a workload, which has one container."""
    found: dict[str, Any] = workload["spec"]["template"]["spec"]
    assert len(found["containers"]) == 1
    return found


def environment(container: dict[str, Any]) -> dict[str, str]:
    """The plain variables of a container."""
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


def test_the_kustomization_has_every_file_but_what_an_operator_adds() -> None:
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]

    assert set(listed) == {path.name for path in FOLDER.glob("*.yaml")} - SEPARATE
    assert all("namespace" not in manifest["metadata"] for manifest in MANIFESTS.values())


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda each: each["metadata"]["name"])
def test_pods_are_confined(workload: dict[str, Any]) -> None:
    spec = pod(workload)
    (container,) = spec["containers"]

    assert (
        spec["securityContext"].items()
        >= {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        }.items()
    )
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["automountServiceAccountToken"] is spec["enableServiceLinks"] is False
    assert container["resources"]["limits"]["memory"]
    assert "USER 10001" in (ROOT / "Dockerfile").read_text()
    labels = workload["spec"]["template"]["metadata"]["labels"]
    assert workload["spec"].get("selector", {"matchLabels": labels})["matchLabels"] == labels


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda each: each["metadata"]["name"])
def test_commands_settings_and_places_exist(workload: dict[str, Any]) -> None:
    spec = pod(workload)
    (container,) = spec["containers"]
    secret = MANIFESTS["Secret", "runtally"]["stringData"]
    named = {each["name"]: each for each in container["env"]}
    keys = [each["valueFrom"]["secretKeyRef"] for each in named.values() if "valueFrom" in each]

    assert container["command"][0] == "runtally"
    assert container["command"][1] in COMMANDS
    assert named.keys() <= VARIABLES
    assert all(key["key"] in secret or key.get("optional") for key in keys)
    plain = {**(SETTINGS if "envFrom" in container else {}), **environment(container)}
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {"/tmp", plain["RUNTALLY_DATA_DIR"]}  # noqa: S108
    claimed = {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", ())}
    assert set(mounts.values()) == claimed | {volume["name"] for volume in spec["volumes"]}


@pytest.mark.parametrize("role", ["api", "worker"])
def test_probes_and_services_reach_the_port(role: str) -> None:
    (workload,) = [each for (_, name), each in WORKLOADS.items() if name == f"runtally-{role}"]
    (container,) = pod(workload)["containers"]
    service = MANIFESTS["Service", f"runtally-{role}"]["spec"]
    budget = MANIFESTS["PodDisruptionBudget", f"runtally-{role}"]["spec"]
    labels = workload["spec"]["template"]["metadata"]["labels"]
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]

    scraped = int(SETTINGS["RUNTALLY_METRICS_PORT"])
    assert container["ports"] == [
        {"name": "http", "containerPort": 8000},
        {"name": "metrics", "containerPort": scraped},
    ]
    assert workload["spec"]["template"]["metadata"]["annotations"] == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(scraped),
        "prometheus.io/path": "/metrics",
    }
    # The metrics port needs no key: nothing that clients use leads to it.
    assert [port["targetPort"] for port in service["ports"]] == ["http"]
    assert container["command"][1:] == [role, "--host", "0.0.0.0"]  # noqa: S104
    assert "EXPOSE 8000" in (ROOT / "Dockerfile").read_text()
    assert {probe["path"] for probe in probes} == PATHS
    assert {probe["port"] for probe in probes} == {"http"}
    assert service["selector"] == budget["selector"]["matchLabels"] == labels


def test_only_workers_have_the_providers_keys_and_volumes() -> None:
    with_key = {
        name
        for (_, name), each in WORKLOADS.items()
        if "ANTHROPIC" in str([variable["name"] for variable in pod(each)["containers"][0]["env"]])
    }

    assert with_key == {"runtally-worker"}
    worker = MANIFESTS["StatefulSet", "runtally-worker"]["spec"]
    assert [claim["metadata"]["name"] for claim in worker["volumeClaimTemplates"]] == ["data"]
    assert set(worker["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}
    assert set(SETTINGS) <= VARIABLES


def test_a_worker_has_the_time_to_finish_its_runs() -> None:
    drain_s = int(environment(WORKER["containers"][0])["RUNTALLY_DRAIN_S"])

    assert drain_s >= int(SETTINGS["RUNTALLY_RUN_TIMEOUT_S"])
    assert WORKER["terminationGracePeriodSeconds"] >= drain_s + STOP_S
    assert "lifecycle" not in WORKER["containers"][0]


def test_the_scaler_counts_less_than_the_places_of_a_worker() -> None:
    places = int(environment(WORKER["containers"][0])["RUNTALLY_MAX_CONCURRENT_RUNS"])
    (trigger,) = SCALED["triggers"]
    target = SCALED["scaleTargetRef"]
    authentication = MANIFESTS["TriggerAuthentication", trigger["authenticationRef"]["name"]]
    (parameter,) = authentication["spec"]["secretTargetRef"]

    assert (target["kind"], target["name"]) in WORKLOADS
    assert 0 < float(trigger["metadata"]["targetQueryValue"]) < places
    # A limit that followed the number of workers would hold back the runs that require more of them.
    assert 0 < int(SETTINGS["RUNTALLY_MAX_RUNS_PER_ACCOUNT"]) <= places * SCALED["maxReplicaCount"] * 3 / 4
    assert parameter["key"] in MANIFESTS["Secret", parameter["name"]]["stringData"]


def test_no_secret_is_real() -> None:
    for path in FOLDER.iterdir():
        for value in re.findall(r"://[^:\s]*:([^@\s]+)@", path.read_text()):
            assert value == "PASSWORD", path.name
