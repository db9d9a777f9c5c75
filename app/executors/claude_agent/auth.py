"""ModelAuth: how a CLI reaches its model; through the gateway, or with the machine's own login."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from app.executors.claude_agent.meters.cli_costs import CliCosts
from app.executors.claude_agent.meters.comparing_meter import ComparingMeter
from app.executors.claude_agent.meters.port import RunMeter
from app.executors.claude_agent.meters.sdk_meter import SdkMeter
from app.executors.claude_agent.process.cli import Cli, CliUnresponsive
from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.process.environment import CacheTtl, Login, cli_environment, login_environment
from app.executors.claude_agent.process.warm_up import send_warm_up_answer
from app.executors.port import RunPlan
from app.gateway.call import MeteringHooks
from app.gateway.channel import Channel, ChannelLimits
from app.gateway.proxy import ChannelAddress, Gateway
from app.gateway.upstream import Upstream
from app.models.registry import ModelOptions

NO_LOGIN = (
    "There is no usable Claude Code login: log in with the Claude Code CLI (`claude auth login`) as the "
    "user who runs the server, or name its directory in RUNTALLY_CLAUDE_CONFIG_DIR"
)


class ModelAuth(Protocol):
    """What a run needs for its CLI to call the model, and for its usage to be counted."""

    @property
    def needs_full_mode(self) -> bool:
        """Whether it works in the CLI's full mode only."""
        ...

    @property
    def login(self) -> Path | None:
        """The CLI's configuration directory if it is not the run's own."""
        ...

    @property
    def unavailable_reason(self) -> str | None:
        """Why no run can start; None if one can be tried."""
        ...

    @property
    def outage(self) -> str | None:
        """Why the latest calls got no response, for the operator; None if they did or there were none."""
        ...

    async def problem(self) -> str | None:
        """What is wrong, for the operator; None if no problem is known. Makes no billable call."""
        ...

    @property
    def refusals(self) -> Mapping[str, str]:
        """Why the provider refuses the operator's calls, by model."""
        ...

    def new_address(self) -> ChannelAddress:
        """The base URL and token for a CLI; they work once a run opens its channel at this address."""
        ...

    def warming_up(self, at: ChannelAddress) -> AbstractContextManager[None] | None:
        """While it is entered, calls at this address are answered without the provider; None: impossible."""
        ...

    def open_channel(
        self, plan: RunPlan, limits: ChannelLimits, hooks: MeteringHooks, *, at: ChannelAddress
    ) -> Channel: ...

    async def close_channel(self, channel: Channel) -> None: ...

    def meter(self, plan: RunPlan, channel: Channel, process: CliProcess) -> RunMeter:
        """What counts this run's usage."""
        ...

    def environment(
        self,
        address: ChannelAddress,
        *,
        directory: Path,
        longest_tool_s: float,
        options: ModelOptions,
        compacts: bool,
    ) -> dict[str, str]:
        """Every environment variable of a CLI."""
        ...


class GatewayAuth:
    """The operator's key, which only the gateway holds."""

    needs_full_mode = False
    login = None

    def __init__(self, provider: Upstream, gateway: Gateway, *, prompt_cache_ttl: CacheTtl = "5m") -> None:
        self._prompt_cache_ttl = prompt_cache_ttl
        self._provider = provider
        self.gateway = gateway

    @property
    def unavailable_reason(self) -> str | None:
        return None if self._provider.has_key else "ANTHROPIC_API_KEY is not set"

    @property
    def outage(self) -> str | None:
        return self._provider.availability.reason

    async def problem(self) -> str | None:
        return await self._provider.problem()

    @property
    def refusals(self) -> Mapping[str, str]:
        return self._provider.refusals.by_model

    def new_address(self) -> ChannelAddress:
        return self.gateway.new_address()

    def warming_up(self, at: ChannelAddress) -> AbstractContextManager[None] | None:
        return self.gateway.answering(at, send_warm_up_answer)

    def open_channel(
        self, plan: RunPlan, limits: ChannelLimits, hooks: MeteringHooks, *, at: ChannelAddress
    ) -> Channel:
        return self.gateway.open_channel(plan.run.run_id, limits, hooks, at=at)

    async def close_channel(self, channel: Channel) -> None:
        await self.gateway.close_channel(channel)

    def meter(self, plan: RunPlan, channel: Channel, process: CliProcess) -> RunMeter:
        return ComparingMeter(plan, channel, CliCosts(lambda: process.usage_baseline))

    def environment(
        self,
        address: ChannelAddress,
        *,
        directory: Path,
        longest_tool_s: float,
        options: ModelOptions,
        compacts: bool,
    ) -> dict[str, str]:
        return cli_environment(
            token=address.token,
            base_url=address.url,
            directory=directory,
            longest_tool_s=longest_tool_s,
            options=options,
            compacts=compacts,
            prompt_cache_ttl=self._prompt_cache_ttl,
        )


class LoginAuth:
    """The machine's own Claude Code login; no gateway is between the CLI and the provider."""

    needs_full_mode = True
    refusals: Mapping[str, str] = {}
    """Never known: no gateway sees the provider's responses."""
    """A lean CLI never reads a login."""
    unavailable_reason = None
    outage = None
    """Whether a login works shows when it is used: a run without one fails."""

    def __init__(self, cli: Cli, login: Login, directory: Path) -> None:
        """`directory` holds the folders of the CLI processes that report their login status."""
        self._cli = cli
        self._login = login
        self._directory = directory

    @property
    def login(self) -> Path:
        return self._login.config

    async def problem(self) -> str | None:
        try:
            status = await self._cli.login_status(self._directory, self._login)
        except CliUnresponsive as error:
            return str(error)
        return NO_LOGIN if status is None else None

    def new_address(self) -> ChannelAddress:
        """See the protocol: the CLI knows the provider's address itself."""
        return ChannelAddress("", "")

    def warming_up(self, at: ChannelAddress) -> AbstractContextManager[None] | None:  # noqa: ARG002
        """See the protocol: every call goes to the provider."""
        return None

    def open_channel(
        self, plan: RunPlan, limits: ChannelLimits, hooks: MeteringHooks, *, at: ChannelAddress
    ) -> Channel:
        """See the protocol: a channel without a gateway, for the limits."""
        return Channel(plan.run.run_id, at.token, at.url, limits, hooks)

    async def close_channel(self, channel: Channel) -> None:
        await channel.close()

    def meter(self, plan: RunPlan, channel: Channel, process: CliProcess) -> RunMeter:
        return SdkMeter(plan, channel, process)

    def environment(
        self,
        address: ChannelAddress,  # noqa: ARG002 - the login has none
        *,
        directory: Path,
        longest_tool_s: float,
        options: ModelOptions,
        compacts: bool,  # noqa: ARG002 - no SDK message would show what compaction uses
    ) -> dict[str, str]:
        """See the protocol. Conversations are never compacted."""
        return login_environment(
            self._login, directory=directory, longest_tool_s=longest_tool_s, options=options
        )
