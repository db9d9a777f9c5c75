"""Packages that are not the ones a release was tested with."""

from importlib.metadata import requires, version

import pytest

from app.doctor.machine import check_sdk, other_than_pinned, reached_by
from app.graphs.spec import GraphSpec

SDK = version("claude-agent-sdk")


@pytest.mark.parametrize("rest", ["", " ; extra == 'server'", "; python_version >= '3.11'"])
def test_another_sdk_than_the_pinned_one_is_named_with_both_versions(rest: str) -> None:
    assert other_than_pinned([f"claude-agent-sdk=={SDK}{rest}", "httpx>=0.28"]) == []
    assert other_than_pinned([f"claude-agent-sdk==0.0.1{rest}"]) == [
        f"claude-agent-sdk {SDK} instead of 0.0.1"
    ]


def test_the_sdk_that_is_installed_here_is_the_pinned_one() -> None:
    assert any(line.startswith("claude-agent-sdk==") for line in requires("runtally") or [])
    assert check_sdk().status == "ok"


def test_the_hosts_that_commands_may_reach_are_named() -> None:
    def graph(name: str, *hosts: str) -> GraphSpec:
        fields = {"name": name, "description": "d", "system_prompt": "p", "native_tools": ("Bash",)}
        return GraphSpec(**fields, network=hosts)

    assert reached_by([graph("a", "PyPI.org:443", "b.test:1"), graph("c")]) == (
        "commands reach: claude_agents:a pypi.org, b.test:1"
    )
    assert reached_by([graph("c")]) == "commands reach no host"
