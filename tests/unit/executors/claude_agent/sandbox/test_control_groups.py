import os
import subprocess
import time
from pathlib import Path

import pytest

from app.executors.claude_agent.process.environment import launcher
from app.executors.claude_agent.sandbox.bubblewrap import CLI_TASKS
from app.executors.claude_agent.sandbox.control_groups import ControlGroup, ControlGroups
from app.executors.claude_agent.sandbox.port import Wrapping
from app.workspaces.spec import WorkspaceSpec

MIB = 1024 * 1024


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """What a process in /runtally/server reads of its own groups."""
    file = tmp_path / "own"
    file.write_text("1:name=systemd:/\n0::/runtally/server\n")
    return file


@pytest.fixture
def delegated(tmp_path: Path) -> Path:
    """A tree as the kernel shows it, as far as plain files can be one; delegated to whoever runs this."""
    group = tmp_path / "root" / "runtally"
    (group / "server").mkdir(parents=True)
    (group / "cgroup.controllers").write_text("cpu memory pids\n")
    os.setxattr(group, "user.delegate", b"1")
    return group


def test_a_sandbox_gets_a_group_with_its_limits(delegated: Path) -> None:
    spec = WorkspaceSpec(max_bytes=10 * MIB, max_memory_bytes=512 * MIB, max_temporary_bytes=MIB)

    group = ControlGroups(delegated).create(spec)

    assert group.path.parent == delegated
    assert int((group.path / "pids.max").read_text()) == 128 + CLI_TASKS
    assert int((group.path / "memory.max").read_text()) == (512 + 21 + 4 + 2048) * MIB
    assert not (group.path / "memory.swap.max").exists()


def test_a_group_can_be_used_below_one_that_is_delegated_to_the_server(own: Path, delegated: Path) -> None:
    groups = ControlGroups.delegated(own=own, root=delegated.parent)

    assert groups == ControlGroups(delegated)
    assert (delegated / "cgroup.subtree_control").read_text() == "+memory +pids"
    # The one it was tried with: plain files keep it from being removed, not from being joined and killed.
    (tried,) = delegated.glob("sandbox-*")
    assert (tried / "cgroup.procs").read_text() == "0\n"
    assert (tried / "cgroup.kill").read_text() == "1"


def test_empty_groups_of_a_server_that_was_killed_are_removed(own: Path, delegated: Path) -> None:
    for name, age_s in (("sandbox-old", 3600), ("sandbox-new", 0), ("sandbox-used", 3600)):
        (delegated / name).mkdir()
        if name == "sandbox-used":
            (delegated / name / "cgroup.procs").touch()
        os.utime(delegated / name, (time.time() - age_s,) * 2)

    ControlGroups.delegated(own=own, root=delegated.parent)

    assert not (delegated / "sandbox-old").exists()
    assert (delegated / "sandbox-new").exists()
    assert (delegated / "sandbox-used").exists()


@pytest.mark.parametrize(
    ("path", "controllers"),
    [("/", "memory pids"), ("/runtally/server", "cpu io"), ("/elsewhere/server", "memory pids")],
)
def test_without_a_delegated_group_there_are_none(
    own: Path, delegated: Path, path: str, controllers: str
) -> None:
    own.write_text(f"0::{path}\n")
    (delegated / "cgroup.controllers").write_text(controllers)

    assert ControlGroups.delegated(own=own, root=delegated.parent) is None


def test_groups_of_somebody_else_and_those_of_the_first_version_are_not_used(
    own: Path, delegated: Path
) -> None:
    os.removexattr(delegated, "user.delegate")
    if os.geteuid() == 0:
        assert ControlGroups.delegated(own=own, root=delegated.parent) is None
    own.write_text("8:pids:/\n4:memory:/x\n")
    assert ControlGroups.delegated(own=own, root=delegated.parent) is None


def test_a_group_that_cannot_be_tried_out_is_not_used(own: Path, delegated: Path) -> None:
    (delegated / "cgroup.subtree_control").mkdir()

    assert ControlGroups.delegated(own=own, root=delegated.parent) is None


def test_a_cli_joins_its_group_before_it_is_anything_else_or_does_not_start(tmp_path: Path) -> None:
    script = tmp_path / "launch"
    for group, started in ((ControlGroup(tmp_path), True), (ControlGroup(tmp_path / "missing"), False)):
        wrapping = Wrapping(Path("/bin/echo"), [], {"PATH": "/usr/bin"}, [], group.processes)
        text = launcher(Path("/no/cli"), {}, pid_file=tmp_path / "pid", wrapping=wrapping)
        script.write_text(text)
        script.chmod(0o700)

        done = subprocess.run([script, "up"], capture_output=True, text=True, check=False)

        assert (done.stdout == "up\n") is started
    assert (tmp_path / "cgroup.procs").read_text() == "0\n"
