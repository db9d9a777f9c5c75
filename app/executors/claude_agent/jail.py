"""The jail: what of this machine a CLI with native tools can see; pure but for what `/` looks like.

The CLI's own sandbox confines its commands, not its file tools: those are held by rules alone, and
a command that swaps a file for a link at the right moment gets past a rule. So the whole CLI lives in
a file system that holds the system's programs, its own few files and the workspace, and nothing else.
"""

import json
from pathlib import Path

from app.executors.claude_agent.native import WORKSPACE

AGENT = Path("/agent")
"""Where the CLI finds what is its own."""

CLI = AGENT / "claude"
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
_ALTERNATIVES = "/etc/alternatives"
_TMP_BYTES = 256 * 1024 * 1024
_USER = "1000"


def jail(*, cli: Path, config: Path, system_prompt: Path, workspace: Path) -> list[str]:
    """Bubblewrap's arguments for a CLI with these files.

    The network is the machine's: the CLI must reach the gateway. Its commands have none, see below.
    """
    own = AGENT.as_posix()
    return [
        # Without any privilege over the machine, also where the server is root; no process outlives it.
        *("--unshare-user", "--uid", _USER, "--gid", _USER),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *("--die-with-parent", "--new-session", "--hostname", "workspace"),
        *_programs(),
        *("--dev", "/dev", "--proc", "/proc"),
        *_scratch("/tmp"),  # noqa: S108 - the jail's own
        *_scratch(f"{own}/tmp"),  # noqa: S108
        *_scratch(f"{own}/home"),
        *("--bind", str(config), f"{own}/config"),
        *("--ro-bind", str(system_prompt), f"{own}/{system_prompt.name}"),
        *("--ro-bind", str(cli), str(CLI)),
        *("--bind", str(workspace), WORKSPACE),
        *("--chdir", WORKSPACE),
    ]


def sandbox_settings() -> str:
    """The CLI's settings for commands: no network, and of the jail the workspace and programs only.

    The SDK's own `sandbox` option replaces the key and knows nothing of files.
    """
    sandbox = {
        "enabled": True,
        "failIfUnavailable": True,
        "autoAllowBashIfSandboxed": True,
        "allowUnsandboxedCommands": False,
        # Only that it takes the jail's /proc instead of a fresh one, which a jail cannot have: there is
        # nothing in it but the jail's own processes.
        "enableWeakerNestedSandbox": True,
        "network": {"allowedDomains": []},
        "filesystem": {
            "denyRead": ["/"],
            "allowRead": [WORKSPACE, "/usr", "/bin", "/lib", "/lib64", _ALTERNATIVES],
        },
    }
    return json.dumps({"sandbox": sandbox})


def _programs() -> list[str]:
    arguments: list[str] = []
    for name in _PROGRAMS:
        path = Path(name)
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), name]
        elif path.is_dir():
            arguments += ["--ro-bind", name, name]
    for name in (_ALTERNATIVES, "/etc/ld.so.cache"):
        arguments += ["--ro-bind-try", name, name]
    return arguments


def _scratch(path: str) -> tuple[str, ...]:
    return ("--perms", "0700", "--size", str(_TMP_BYTES), "--tmpfs", path)
