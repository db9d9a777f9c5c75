"""Packages that are not the ones a release was tested with."""

from importlib.metadata import requires, version

import pytest

from app.doctor.machine import check_sdk, other_than_pinned

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
