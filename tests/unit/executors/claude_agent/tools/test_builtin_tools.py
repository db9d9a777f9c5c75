from typing import Any

import pytest

from app.executors.claude_agent.tools.builtin_tools import denial_reason, permission_rules, visible_args


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
        ("Read", {"file_path": " a"}),
        ("Read", {"file_path": "a\u00a0"}),
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
    assert visible_args("Read", {"file_path": "/etc/passwd"}) == {"file_path": "/etc/passwd"}


@pytest.mark.parametrize(
    "path", ["/workspace/\u00e9/b", "\u00e9/b", "./\u00e9//./b", "/workspace//e\u0301/b/", "e\u0301/b"]
)
def test_rules_see_each_path_in_one_form(path: str) -> None:
    assert visible_args("Write", {"file_path": path}) == {"file_path": "\u00e9/b"}


def test_tools_of_ours_keep_their_arguments() -> None:
    assert visible_args("core__calculate", {"path": "/workspace/a"}) == {"path": "/workspace/a"}


def test_the_cli_allows_tools_of_files_in_the_workspace_only() -> None:
    assert permission_rules(["Read", "Bash"]) == ["Read(//workspace/**)", "Bash"]
    assert permission_rules(["Write", "Grep", "Glob"]) == ["Edit(//workspace/**)", "Read(//workspace/**)"]
