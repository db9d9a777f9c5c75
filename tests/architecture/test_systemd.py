"""The unit for systemd leaves runs their time, and takes nothing away that sandboxes need."""

import shutil
import subprocess
from pathlib import Path

import pytest

from app.cli.main import app
from tests.architecture.test_containers import DEFAULT_DRAIN_S, STOP_S
from tests.architecture.tree import ROOT

UNIT = ROOT / "deploy" / "systemd" / "runtally.service"
COMMANDS = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
PROGRAM = "/opt/runtally/bin/runtally"
BREAKING_SANDBOXES = {
    *("MemoryDenyWriteExecute", "PrivateUsers", "ProcSubset", "ProtectControlGroups", "ProtectHostname"),
    *("ProtectKernelLogs", "ProtectKernelTunables", "ProtectProc", "RestrictNamespaces", "SystemCallFilter"),
}
NEWER_THAN_252 = "DelegateSubgroup"


def options() -> dict[str, list[str]]:
    """The values of each option, in any section."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text("utf-8").splitlines():
        if line and not line.startswith(("#", "[")):
            name, is_option, value = line.partition("=")
            assert is_option, line
            found.setdefault(name, []).append(value)
    return found


def test_a_stop_signals_the_server_alone_and_waits_for_its_runs() -> None:
    unit = options()

    assert unit["KillMode"] == ["mixed"]
    assert int(unit["TimeoutStopSec"][0]) >= DEFAULT_DRAIN_S + STOP_S
    assert "KillSignal" not in unit


def test_it_is_started_again_with_its_directory_and_settings() -> None:
    unit = options()
    program, command = unit["ExecStart"][0].split()

    assert (program, command in COMMANDS, unit["Restart"]) == (PROGRAM, True, ["always"])
    assert unit["StartLimitIntervalSec"] == ["0"]
    assert f"RUNTALLY_DATA_DIR=/var/lib/{unit['StateDirectory'][0]}" in unit["Environment"]
    assert not any("KEY" in variable or "PASSWORD" in variable for variable in unit["Environment"])
    assert unit["EnvironmentFile"] == ["/etc/runtally/runtally.env"]
    assert int(unit["LimitNOFILE"][0]) > 2**14


def test_it_is_confined_as_far_as_sandboxes_can_start() -> None:
    unit = options()

    assert unit.keys() & BREAKING_SANDBOXES == set()
    assert unit["Delegate"] == ["memory pids"]
    assert unit["DelegateSubgroup"] == ["server"]
    # Sandboxes set up the loopback of their network through it.
    assert "AF_NETLINK" in unit["RestrictAddressFamilies"][0]
    assert unit["User"] != ["root"]
    assert unit["NoNewPrivileges"] == ["yes"]


def test_systemd_knows_every_option(tmp_path: Path) -> None:
    if (analyze := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / UNIT.name
    # It refuses a program that is not there.
    unit.write_text(UNIT.read_text("utf-8").replace(PROGRAM, "/bin/true"))

    verified = subprocess.run(
        [analyze, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )

    problems = (verified.stdout + verified.stderr).splitlines()
    assert [line for line in problems if NEWER_THAN_252 not in line] == []
