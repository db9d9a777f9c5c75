"""The commands of `kubectl` that a tutorial uses, with processes of this machine as pods.

Commands, settings, secrets and numbers of pods are those of the manifests. Images and volumes are left out.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

from app.platform.embedded.ports import free_port

_HOME = Path(os.environ.get("HOME", "/"))
_STATE = _HOME / "cluster.json"
_OF_THE_PLACE = {"RUNTALLY_DATA_DIR", "RUNTALLY_METRICS_PORT"}
"""Settings that are different for each process of one machine."""
_INHERITED = ("PATH", "HOME", "ANTHROPIC_BASE_URL", "RUNTALLY_IDLE_PROCESSES")


@dataclass
class Cluster:
    """What a cluster knows."""

    secrets: dict[str, dict[str, str]] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    workloads: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The only container of each kind of pod."""
    pods: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The process and the port of each pod."""

    def apply(self, folder: Path) -> None:
        """Start what the manifests of a folder name; jobs come to their end."""
        names = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
        manifests = [each for name in names for each in yaml.safe_load_all((folder / name).read_text())]
        for manifest in manifests:
            name = manifest["metadata"]["name"]
            if manifest["kind"] == "ConfigMap":
                self.settings[name] = manifest["data"]
            elif manifest["kind"] in {"Job", "Deployment", "StatefulSet"}:
                (self.workloads[name],) = manifest["spec"]["template"]["spec"]["containers"]
        for manifest in sorted(manifests, key=lambda each: each["kind"] != "Job"):
            name, spec = manifest["metadata"]["name"], manifest.get("spec", {})
            if manifest["kind"] == "Job":
                subprocess.run(self._command(name), env=self._environment(name, name), check=True)
            elif name in self.workloads and "replicas" in spec:
                self.scale(name, spec["replicas"])

    def scale(self, workload: str, replicas: int) -> None:
        """Start pods until there are so many."""
        for number in range(replicas):
            if f"{workload}-{number}" not in self.pods:
                self._start(workload, number)

    def delete_pod(self, pod: str) -> None:
        """End a pod, and start it anew with its directory."""
        process = psutil.Process(self.pods.pop(pod)[0])
        process.terminate()
        process.wait()
        workload, _, number = pod.rpartition("-")
        self._start(workload, int(number))

    def wait(self, workload: str) -> None:
        """Until each pod of a workload is ready."""
        for pod, (_, port) in self.pods.items():
            while pod.startswith(workload) and not _is_ready(port):
                time.sleep(0.1)

    def _start(self, workload: str, number: int) -> None:
        pod = f"{workload}-{number}"
        # The first API server is where `kubectl port-forward` would lead.
        first = httpx.URL(os.environ["RUNTALLY_URL"]).port if pod == "runtally-api-0" else None
        port = first or free_port()
        with (_HOME / f"{pod}.log").open("ab") as log:
            started = subprocess.Popen(
                [*self._command(workload), "--port", str(port)],
                env=self._environment(workload, pod),
                stdout=log,
                stderr=log,
            )
        self.pods[pod] = (started.pid, port)

    def _command(self, workload: str) -> list[str]:
        return [part.replace("0.0.0.0", "127.0.0.1") for part in self.workloads[workload]["command"]]  # noqa: S104

    def _environment(self, workload: str, pod: str) -> dict[str, str]:
        """The variables of a container, each from where its manifest says."""
        container = self.workloads[workload]
        found: dict[str, str] = {}
        for source in container.get("envFrom", []):
            found |= self.settings[source["configMapRef"]["name"]]
        for each in container["env"]:
            if "value" in each:
                found[each["name"]] = each["value"]
                continue
            key = each["valueFrom"]["secretKeyRef"]
            value = self.secrets[key["name"]].get(key["key"])
            assert value is not None or key.get("optional"), key
            found |= {} if value is None else {each["name"]: value}
        own = {name: value for name, value in found.items() if name not in _OF_THE_PLACE}
        (directory := _HOME / pod).mkdir(exist_ok=True)
        inherited = {name: os.environ[name] for name in _INHERITED}
        return inherited | own | {"RUNTALLY_DATA_DIR": str(directory)}


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).is_success
    except httpx.TransportError:
        return False


def main(*arguments: str) -> None:
    """Do what a command says; raises `ValueError` for one that no tutorial has."""
    cluster = Cluster(**json.loads(_STATE.read_text())) if _STATE.exists() else Cluster()
    match arguments:
        case ("create", "secret", "generic", name, *values):
            pairs = (value.removeprefix("--from-literal=").partition("=") for value in values)
            cluster.secrets[name] = {key: value for key, _, value in pairs}
        case ("apply", "-k", folder):
            cluster.apply(Path(folder))
        case ("rollout", "status", workload):
            cluster.wait(workload.partition("/")[2])
        case ("scale", workload, replicas):
            cluster.scale(workload.partition("/")[2], int(replicas.removeprefix("--replicas=")))
        case ("delete", "pod", pod):
            cluster.delete_pod(pod)
        case ("port-forward", "service/runtally-api", _):
            pass
        case _:
            raise ValueError(arguments)
    _STATE.write_text(json.dumps(asdict(cluster)))


if __name__ == "__main__":
    main(*sys.argv[1:])
