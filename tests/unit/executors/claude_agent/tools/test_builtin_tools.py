import json
from pathlib import Path
from typing import Any

import pytest

from app.executors.claude_agent.sandbox.bubblewrap import bubblewrap_arguments, sandbox_settings
from app.executors.claude_agent.tools.builtin_tools import denial_reason, permission_rules, visible_args
from app.workspaces.spec import WorkspaceSpec


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("Read", {"file_path": "/workspace/a"}),
        ("Read", {"file_path": "a/b"}),
        ("Glob", {"pattern": "**/*.py"}),
        ("Glob", {"pattern": "*", "path": "/workspace"}),
        ("Grep", {"pattern": "../x", "path": "src", "glob": "*.{py,md}"}),
        ("Bash", {"command": "cat /etc/passwd"}),
    ],
)
def test_nothing_is_against_a_call_inside(tool: str, args: dict[str, Any]) -> None:
    assert denial_reason(tool, args) is None


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("Read", {"file_path": "/etc/passwd"}),
        ("Read", {"file_path": "/workspace2/a"}),
        ("Read", {"file_path": "/workspace/a/../../etc"}),
        ("Read", {"file_path": "~/a"}),
        ("Write", {"file_path": ["/workspace/a"]}),
        ("Glob", {"pattern": "/**"}),
        ("Glob", {"pattern": "a/../../*"}),
        ("Grep", {"pattern": "x", "path": "/"}),
        ("Grep", {"pattern": "x", "glob": "../**"}),
        ("Bash", {"command": "id", "run_in_background": True}),
        ("Bash", {"command": "id", "dangerouslyDisableSandbox": True}),
    ],
)
def test_a_call_outside_is_objected_to(tool: str, args: dict[str, Any]) -> None:
    assert denial_reason(tool, args) is not None


def test_clients_see_paths_as_they_are_in_the_workspace() -> None:
    assert visible_args("Read", {"file_path": "/workspace/a/b", "limit": 3}) == {
        "file_path": "a/b",
        "limit": 3,
    }
    assert visible_args("Grep", {"path": "/workspace", "pattern": "/workspace/x"}) == {
        "path": ".",
        "pattern": "/workspace/x",
    }
    assert visible_args("Read", {"file_path": 7}) == {"file_path": 7}
    assert visible_args("core__calculate", {"path": "/workspace/a"}) == {"path": "/workspace/a"}


def test_the_cli_allows_tools_of_files_in_the_workspace_only() -> None:
    assert permission_rules(["Read", "Bash"]) == ["Read(//workspace/**)", "Bash"]
    assert permission_rules(["Write", "Grep", "Glob"]) == ["Edit(//workspace/**)", "Read(//workspace/**)"]


def test_the_sandbox_holds_programs_its_own_files_and_the_workspace() -> None:
    arguments = bubblewrap_arguments(
        cli=Path("/site/claude"),
        files=[Path("/agent/p.md"), Path("/agent/bin/bwrap")],
        config_bytes=3_000_000,
        spec=WorkspaceSpec(max_bytes=1000, max_temporary_bytes=2_000_000),
    )

    bound = {
        source: target
        for option, source, target in zip(arguments, arguments[1:], arguments[2:], strict=False)
        if option in {"--bind", "--ro-bind", "--ro-bind-try"}
    }
    programs = {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache"}
    assert {source: target for source, target in bound.items() if source not in programs} == {
        "/proc/sys": "/proc/sys",
        "/site/claude": "/agent/claude",
    }
    copied = [
        (descriptor, target)
        for option, descriptor, target in zip(arguments, arguments[1:], arguments[2:], strict=False)
        if option == "--file"
    ]
    assert copied == [("4", "/agent/p.md"), ("5", "/agent/bin/bwrap")]
    assert {"--unshare-user", "--unshare-pid", "--die-with-parent", "--new-session"} <= set(arguments)


def test_commands_read_an_allowlist_and_have_no_network() -> None:
    sandbox = json.loads(sandbox_settings())["sandbox"]

    assert sandbox["enabled"] is True
    assert sandbox["failIfUnavailable"] is True
    assert sandbox["allowUnsandboxedCommands"] is False
    assert sandbox["network"] == {"allowedDomains": []}
    assert sandbox["filesystem"]["denyRead"] == ["/"]
    assert "/" not in sandbox["filesystem"]["allowRead"]
