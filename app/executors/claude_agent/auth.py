"""How the CLI reaches its model: through the gateway, or by the machine's own login."""

from pathlib import Path
from typing import Protocol

from app.executors.claude_agent.metering.meters import ComparingMeter, RunMeter
from app.executors.claude_agent.metering.sdk_meter import SdkMeter
from app.executors.claude_agent.process.cli import Cli, CliUnresponsive
from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.process.environment import Login, cli_environment, login_environment
from app.executors.port import RunContext
from app.gateway.call import ChannelHooks
from app.gateway.channel import Channel, ChannelLimits
from app.gateway.proxy import Address, Gateway
from app.gateway.upstream import Upstream
from app.models.registry import ModelOptions

NO_LOGIN = (
    "There is no usable Claude Code login: log in with the Claude Code CLI (`claude auth login`) as the "
    "user who runs the server, or name its directory in RUNTALLY_CLAUDE_CONFIG_DIR"
)


class ModelAuth(Protocol):
    """What a run needs to have its CLI answered, and what it used counted."""

    @property
    def full(self) -> bool:
        """Whether it takes the CLI's full mode."""
        ...

    @property
    def login(self) -> Path | None:
        """The CLI's configuration directory when it is not the run's own."""
        ...

    @property
    def missing(self) -> str | None:
        """Why no run can start; None when one can be tried."""
        ...

    async def problem(self) -> str | None:
        """What is wrong, in words for the operator; None when nothing is known to be. Costs nothing."""
        ...

    def address(self) -> Address:
        """Where a CLI is to find its model; nothing is there before a run opens its lane."""
        ...

    def open(
        self, context: RunContext, limits: ChannelLimits, links: ChannelHooks, *, at: Address
    ) -> Channel:
        """A lane for one run."""
        ...

    async def close(self, lane: Channel) -> None:
        """End a run's lane."""
        ...

    def meter(self, context: RunContext, lane: Channel, process: CliProcess) -> RunMeter:
        """What counts this run."""
        ...

    def environment(
        self, address: Address, *, directory: Path, longest_tool_s: float, asked: ModelOptions, compacts: bool
    ) -> dict[str, str]:
        """Every variable of a CLI."""
        ...


class GatewayAuth:
    """The operator's key, which only the gateway holds."""

    full = False
    login = None

    def __init__(self, provider: Upstream, gateway: Gateway) -> None:
        self._provider = provider
        self._gateway = gateway

    @property
    def missing(self) -> str | None:
        """See the protocol."""
        return None if self._provider.has_key else "ANTHROPIC_API_KEY is not set"

    async def problem(self) -> str | None:
        """See the protocol."""
        return await self._provider.problem()

    def address(self) -> Address:
        """See the protocol."""
        return self._gateway.address()

    def open(
        self, context: RunContext, limits: ChannelLimits, links: ChannelHooks, *, at: Address
    ) -> Channel:
        """See the protocol."""
        return self._gateway.open(context.run.run_id, limits, links, at=at)

    async def close(self, lane: Channel) -> None:
        """See the protocol."""
        await self._gateway.close(lane)

    def meter(
        self,
        context: RunContext,
        lane: Channel,
        process: CliProcess,  # noqa: ARG002 - the gateway counts
    ) -> RunMeter:
        """See the protocol."""
        return ComparingMeter(context, lane)

    def environment(
        self, address: Address, *, directory: Path, longest_tool_s: float, asked: ModelOptions, compacts: bool
    ) -> dict[str, str]:
        """See the protocol."""
        return cli_environment(
            token=address.token,
            base_url=address.url,
            directory=directory,
            longest_tool_s=longest_tool_s,
            asked=asked,
            compacts=compacts,
        )


class LoginAuth:
    """The machine's own Claude Code login; nothing stands between the CLI and the provider."""

    full = True
    """A lean CLI never reads a login."""
    missing = None
    """Whether a login is any good shows when it is used: a run without one ends as refused."""

    def __init__(self, cli: Cli, login: Login, directory: Path) -> None:
        """`directory` takes the folders of the CLIs that are asked whether they are logged in."""
        self._cli = cli
        self._login = login
        self._directory = directory

    @property
    def login(self) -> Path:
        """See the protocol."""
        return self._login.config

    async def problem(self) -> str | None:
        """See the protocol."""
        try:
            status = await self._cli.login(self._directory, self._login)
        except CliUnresponsive as error:
            return str(error)
        return NO_LOGIN if status is None else None

    def address(self) -> Address:
        """See the protocol: the CLI knows where to find it."""
        return Address("", "")

    def open(
        self, context: RunContext, limits: ChannelLimits, links: ChannelHooks, *, at: Address
    ) -> Channel:
        """See the protocol: a lane no gateway knows of, for the limits."""
        return Channel(context.run.run_id, at.token, at.url, limits, links)

    async def close(self, lane: Channel) -> None:
        """See the protocol."""
        await lane.close()

    def meter(self, context: RunContext, lane: Channel, process: CliProcess) -> RunMeter:
        """See the protocol."""
        return SdkMeter(context, lane, process)

    def environment(
        self,
        address: Address,  # noqa: ARG002 - there is none
        *,
        directory: Path,
        longest_tool_s: float,
        asked: ModelOptions,
        compacts: bool,  # noqa: ARG002 - no message would show what that uses
    ) -> dict[str, str]:
        """See the protocol. No conversation is summed up."""
        return login_environment(self._login, directory=directory, longest_tool_s=longest_tool_s, asked=asked)
