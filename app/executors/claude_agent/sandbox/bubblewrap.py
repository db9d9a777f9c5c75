"""The bubblewrap sandbox of a CLI with native tools: its arguments; reads `/`, no other I/O.

The CLI's own command sandbox confines commands, but not its file tools: only permission rules hold those,
and a command that swaps a file for a link at the right moment gets past a rule. So the whole CLI runs in
a file system that contains the system's programs, its own few files and the workspace, and nothing else.
Every writable directory is in memory and has a size limit; no path of this machine is visible.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from app.executors.claude_agent.programs import PROGRAM_PATH
from app.executors.claude_agent.sandbox.cli_settings import SHOWN
from app.executors.claude_agent.sandbox.port import CliPaths
from app.executors.claude_agent.tools.builtin_tools import WORKSPACE
from app.workspaces.spec import WorkspaceSpec

AGENT = Path("/agent")
"""The CLI's own files."""

CLI = AGENT / "claude"
CONFIG = AGENT / "config"
PATHS = CliPaths(AGENT, CONFIG, Path(WORKSPACE))
COMMAND_SANDBOX = AGENT / "bin" / "bwrap"
SYSCALL_FILTER = AGENT / "syscalls"
EGRESS = AGENT / "egress" / "proxy"
"""The socket of the run's proxy to other hosts. Its directory is the sandbox's, so no path of this machine
names it, and no other run has it."""

FIRST_FILE = 4
SANDBOX_PATH = f"{COMMAND_SANDBOX.parent}:{PROGRAM_PATH}"
"""The CLI starts its command sandbox by the name `bwrap`: ours comes first."""

_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
_EGRESS_BYTES = 65_536
_PROXY_OF_CLI = AGENT / "tmp" / "claude-http-*.sock"
"""The socket to which all that a command sends to the CLI's own proxy is passed on."""

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the sandbox's own
_USER = "1000"

TEMPORARY_DIRECTORIES = 4
"""All directories besides the workspace together may hold this many times `max_temporary_bytes`."""

CLI_TASKS = 64 + 2 * (os.cpu_count() or 1)
"""Processes and threads of the CLI itself, which the kernel counts, too."""

_ENVIRONMENT = ("HOME", "LANG", "PWD", "SHELL", "TMPDIR", "CLAUDECODE", "GIT_EDITOR")
"""The CLI's variables that a command gets: none by which the CLI reaches its model."""


def bubblewrap_arguments(
    *, cli: Path, files: Sequence[Path], config_bytes: int, spec: WorkspaceSpec, reaches_hosts: bool = False
) -> list[str]:
    """Bubblewrap's arguments for a CLI that gets copies of files at these paths.

    The files are read from the descriptors from `FIRST_FILE` on: a mount would show their path on this
    machine. `config_bytes` limits the CLI's transcript and stored results. The network is the machine's,
    because the CLI must reach the gateway; its commands have none, see `cli_settings`, but a socket to
    the proxy if the graph names hosts, see `command_sandbox`.
    """
    own = AGENT.as_posix()
    scratch = spec.max_temporary_bytes
    return [
        # No privileges on the machine, even if the server is root; no process outlives the sandbox.
        *("--unshare-user", "--uid", _USER, "--gid", _USER),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *("--die-with-parent", "--new-session", "--hostname", "workspace"),
        *_programs(),
        *("--dev", "/dev", "--proc", "/proc"),
        # The kernel's settings: bubblewrap leaves them writable for root, even without privileges.
        *("--ro-bind", "/proc/sys", "/proc/sys"),
        *_in_memory(_SHARED_MEMORY, scratch),
        *_in_memory("/tmp", scratch),  # noqa: S108 - the sandbox's own
        *_in_memory(f"{own}/tmp", scratch),  # noqa: S108
        *_in_memory(f"{own}/home", scratch),
        *_in_memory(CONFIG.as_posix(), config_bytes),
        *(_in_memory(EGRESS.parent.as_posix(), _EGRESS_BYTES) if reaches_hosts else ()),
        *("--ro-bind", str(cli), str(CLI)),
        *_in_memory(WORKSPACE, spec.size),
        *(word for place in enumerate(files, FIRST_FILE) for word in _copied(*place)),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", WORKSPACE),
    ]


def command_sandbox(spec: WorkspaceSpec, *, reaches_hosts: bool = False) -> str:
    """The program that replaces `bwrap` inside the sandbox, where the CLI starts its commands with it.

    It adds what the CLI has no setting for: limits, a size for every directory in memory, and an
    environment without the run's token. Instead of the sandbox's whole file system, whose mounts name
    directories of this machine, a command gets the programs; the CLI adds the workspace and the rest.

    The CLI sets the variables of a proxy for its commands and leads them to a proxy of its own, which lets
    nothing through and does not exist in a command's file system. If the graph names hosts, our proxy is put
    in its place. Where a newer CLI did that differently, commands would have no network.
    """
    limits = {
        "nproc": spec.max_processes + CLI_TASKS,
        "data": spec.max_memory_bytes,
        "cpu": spec.max_cpu_s,
        "fsize": max(spec.size, spec.max_temporary_bytes),
        "nofile": 1024,
        "core": 0,
        "memlock": 0,
        "msgqueue": 0,
    }
    # Without the first `--ro-bind`: the script has forwarded the CLI's own before it replaces the root path.
    _, *programs = _programs()
    size = ("--size", str(spec.max_temporary_bytes), "--tmpfs")
    shared_memory = shlex.join((*size, _SHARED_MEMORY, "--remount-ro", "/dev"))
    kept = " ".join(f'{name}="${name}"' for name in _ENVIRONMENT)
    limited = shlex.join(["prlimit", *(f"--{name}={value}" for name, value in limits.items()), "--"])
    egress = f'[ -z "$proxy" ] || set -- "$@" --bind {EGRESS} "$proxy"' if reaches_hosts else ":"
    return f"""#!/bin/sh
options=yes option= source= proxy=
for argument; do
    shift
    case "${{options:+$argument}}" in
        --)
            options=
            {egress}
            set -- "$@" --seccomp 9 --remount-ro / -- ;;
        --tmpfs) set -- "$@" {shlex.join(size)} ;;
        /dev)
            set -- "$@" /dev
            [ "$source" != --dev ] || set -- "$@" {shared_memory} ;;
        /)
            if [ "$option" = --ro-bind ] && [ "$source" = / ]; then
                set -- "$@" {shlex.join(programs)}
            elif [ "$source" != --ro-bind ]; then
                set -- "$@" /
            fi ;;
        *) set -- "$@" "$argument" ;;
    esac
    case "$argument" in {_PROXY_OF_CLI}) proxy=$argument ;; esac
    option=$source source=$argument
done
# Killed first when memory runs out, and scheduled last.
echo 1000 > /proc/self/oom_score_adj
exec env -i PATH={PROGRAM_PATH} {kept} {limited} nice -n 10 bwrap "$@" 9< {SYSCALL_FILTER}
"""


def _programs() -> list[str]:
    arguments: list[str] = []
    for name in _PROGRAMS:
        path = Path(name)
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), name]
        elif path.is_dir():
            arguments += ["--ro-bind", name, name]
    for name in (*SHOWN, "/etc/ld.so.cache"):
        arguments += ["--ro-bind-try", name, name]
    return arguments


def _copied(descriptor: int, place: Path) -> tuple[str, ...]:
    return ("--perms", "0700", "--file", str(descriptor), place.as_posix())


def _in_memory(path: str, size: int) -> tuple[str, ...]:
    return ("--perms", "0700", "--size", str(size), "--tmpfs", path)
