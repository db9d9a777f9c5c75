"""BubblewrapSandboxes: opens sandboxes of bubblewrap; implements the port."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from app.executors.claude_agent.sandbox.control_groups import ControlGroups
from app.executors.claude_agent.sandbox.port import SandboxUnavailable
from app.executors.claude_agent.sandbox.probe import SandboxProbe
from app.executors.claude_agent.sandbox.running_sandbox import RunningSandbox
from app.workspaces.egress.proxy import Egress
from app.workspaces.workspace import Workspace

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BubblewrapSandboxes:
    """Implements the `Sandboxes` port."""

    probe: SandboxProbe
    groups: ControlGroups | None
    """The control groups of sandboxes, if the server may create some."""
    egress: Egress
    """The way of their commands to other hosts."""

    async def require(self) -> None:
        await self.probe.require()

    async def open(self, workspace: Workspace, network: Sequence[str]) -> RunningSandbox:
        spec = workspace.spec
        try:
            group = None if self.groups is None else await asyncio.to_thread(self.groups.create, spec)
        except OSError as error:
            log.error("control_group.create_failed", reason=error.strerror)  # noqa: TRY400
            raise SandboxUnavailable from error
        egress = self.egress.proxy(network, max_bytes=spec.max_network_bytes) if network else None
        return RunningSandbox(workspace, group, egress)
