import os

import pytest

from app.executors.claude_agent.sandbox.probe import limits_in_force
from app.executors.claude_agent.sandbox.running_sandbox import RunningSandbox, SandboxUnreachable
from app.workspaces.spec import WorkspaceSpec
from app.workspaces.workspace import Workspace


async def test_a_sandbox_whose_run_is_over_is_not_entered() -> None:
    sandbox = RunningSandbox(Workspace(WorkspaceSpec(), [], []), None)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - no path of ours

    await sandbox.aclose()
    with pytest.raises(SandboxUnreachable, match="over"):
        await sandbox.enter(os.getpid())

    assert not sandbox.filled
    assert sandbox.exceeded_limit() is None
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


async def test_a_process_that_is_no_sandbox_is_not_entered() -> None:
    sandbox = RunningSandbox(Workspace(WorkspaceSpec(), [], []), None)

    with pytest.raises(SandboxUnreachable, match="ended"):
        await sandbox.enter(os.getpid())

    assert not sandbox.filled


def test_an_operator_is_told_what_limits_a_sandbox_and_that_root_is_not_counted() -> None:
    description = limits_in_force()

    assert "limits by the kernel" in description
    if "control groups" not in description:
        assert ("should not be root" in description) is (os.geteuid() == 0)
