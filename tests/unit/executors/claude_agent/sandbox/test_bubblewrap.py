"""What a sandbox contains, and what its commands may not do."""

import json
import struct
from pathlib import Path

import pytest

from app.executors.claude_agent.sandbox.bubblewrap import (
    AGENT,
    COMMAND_SANDBOX,
    SYSCALL_FILTER,
    bubblewrap_arguments,
    command_sandbox,
)
from app.executors.claude_agent.sandbox.cli_settings import sandbox_settings
from app.executors.claude_agent.sandbox.seccomp import refusing_filter
from app.workspaces.spec import WorkspaceSpec

SPEC = WorkspaceSpec(max_processes=20, max_memory_bytes=600 * 2**20, max_cpu_s=3)


def arguments() -> list[str]:
    return bubblewrap_arguments(
        cli=Path("/opt/claude"), files=[COMMAND_SANDBOX, SYSCALL_FILTER], config_bytes=1000, spec=SPEC
    )


def test_it_has_no_privileges_and_does_not_outlive_the_server() -> None:
    found = arguments()

    assert {"--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session"} <= set(
        found
    )
    assert "--bind" not in found


def test_it_holds_programs_and_the_cli_and_nothing_else_of_the_machine() -> None:
    found = arguments()

    bound = {
        source: target
        for option, source, target in zip(found, found[1:], found[2:], strict=False)
        if option in {"--ro-bind", "--ro-bind-try"}
    }
    programs = {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache"}
    programs.add("/etc/ssl/certs")
    assert {source: target for source, target in bound.items() if source not in programs} == {
        "/proc/sys": "/proc/sys",
        "/opt/claude": "/agent/claude",
    }


def test_files_come_by_descriptor_and_every_writable_place_has_a_size() -> None:
    found = arguments()

    assert found[found.index(str(COMMAND_SANDBOX)) - 2 : found.index(str(COMMAND_SANDBOX))] == ["--file", "4"]
    assert found[found.index(str(SYSCALL_FILTER)) - 1] == "5"
    places = [index for index, word in enumerate(found) if word == "--tmpfs"]
    assert all(found[index - 2] == "--size" for index in places)
    assert {found[index + 1] for index in places} == {
        *("/dev/shm", "/tmp", "/workspace"),  # noqa: S108
        *(f"{AGENT}/{name}" for name in ("tmp", "home", "config")),
    }


def test_commands_have_no_network_and_see_the_workspace_and_programs_only() -> None:
    settings = json.loads(sandbox_settings())["sandbox"]

    assert (settings["enabled"], settings["failIfUnavailable"]) == (True, True)
    assert settings["network"] == {"allowedDomains": []}
    assert settings["allowUnsandboxedCommands"] is False
    assert settings["filesystem"]["denyRead"] == ["/"]
    assert settings["filesystem"]["allowRead"][0] == "/workspace"
    assert "/" not in settings["filesystem"]["allowRead"]


def test_commands_start_with_limits_a_filter_and_without_the_token() -> None:
    program = command_sandbox(SPEC)

    assert f"--data={SPEC.max_memory_bytes}" in program
    assert "--cpu=3" in program
    assert "--seccomp 9" in program
    assert "env -i" in program
    assert "ANTHROPIC" not in program


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_refuses_what_makes_memory_of_nobodys(machine: str) -> None:
    program = [struct.unpack("=HBBI", refusing_filter(machine)[at : at + 8]) for at in range(0, 16 * 8, 8)]
    memfd_create = {"x86_64": 319, "aarch64": 279}[machine]
    refused = [instruction for instruction in program if instruction[3] == memfd_create]

    assert len(refused) == 1
    assert refused[0][1] > 0


def test_there_is_no_filter_for_a_machine_without_a_cli() -> None:
    with pytest.raises(KeyError):
        refusing_filter("riscv64")
