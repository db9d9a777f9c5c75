"""How a CLI reaches its model: by the gateway and its key, or by the machine's login."""

from pathlib import Path

import pytest

from app.executors.claude_agent.auth import GatewayAuth, LoginAuth
from app.executors.claude_agent.meters.comparing_meter import ComparingMeter
from app.executors.claude_agent.meters.sdk_meter import SdkMeter
from app.executors.claude_agent.process.cli import Cli
from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.process.environment import Login
from app.executors.metering import channel_limits
from app.gateway.proxy import Gateway
from app.gateway.upstream import Upstream
from app.models.registry import ModelOptions
from tests.factories import a_plan
from tests.unit.executors.claude_agent.fake_cli import FakeCli
from tests.unit.gateway.calls import Billing

OPTIONS = ModelOptions()


def by_gateway(key: str | None = "sk-of-the-operator") -> GatewayAuth:
    provider = Upstream(base_url="http://127.0.0.1:9", api_key=key)
    return GatewayAuth(provider, Gateway(provider))


def by_login(directory: Path) -> LoginAuth:
    return LoginAuth(Cli(Path("/no/cli")), Login.of(directory / "login"), directory)


async def test_the_key_stays_with_the_gateway_and_the_cli_gets_a_token_of_its_own() -> None:
    auth = by_gateway()
    one, other = auth.new_address(), auth.new_address()

    environment = auth.environment(
        one, directory=Path("/run/1"), longest_tool_s=1, options=OPTIONS, compacts=False
    )

    assert one.token != other.token
    assert (environment["ANTHROPIC_API_KEY"], environment["ANTHROPIC_BASE_URL"]) == one
    assert "sk-of-the-operator" not in str(environment)


async def test_without_a_key_no_run_starts() -> None:
    assert by_gateway().unavailable_reason is None
    assert by_gateway(None).unavailable_reason == "ANTHROPIC_API_KEY is not set"


async def test_a_conversation_may_be_summed_up_behind_the_gateway_only(tmp_path: Path) -> None:
    for auth, expected in ((by_gateway(), None), (by_login(tmp_path), "1")):
        environment = auth.environment(
            auth.new_address(), directory=tmp_path, longest_tool_s=1, options=OPTIONS, compacts=True
        )
        assert environment.get("DISABLE_COMPACT") == expected


async def test_with_the_login_nothing_chooses_a_provider_and_the_full_mode_is_needed(tmp_path: Path) -> None:
    auth = by_login(tmp_path)

    environment = auth.environment(
        auth.new_address(), directory=tmp_path, longest_tool_s=1, options=OPTIONS, compacts=False
    )

    assert not [name for name in environment if name.startswith("ANTHROPIC_")]
    assert environment["CLAUDE_CONFIG_DIR"] == str(auth.login)
    assert (auth.needs_full_mode, auth.unavailable_reason) == (True, None)
    assert (by_gateway().needs_full_mode, by_gateway().login) == (False, None)


async def test_a_cli_that_cannot_be_asked_is_a_problem_for_the_operator(tmp_path: Path) -> None:
    assert await by_login(tmp_path).problem() is not None


@pytest.mark.parametrize(("way", "meter"), [("gateway", ComparingMeter), ("login", SdkMeter)])
async def test_both_enforce_limits_and_count_in_their_own_way(tmp_path: Path, way: str, meter: type) -> None:
    auth = by_gateway() if way == "gateway" else by_login(tmp_path)
    plan = a_plan()
    directory = RunDirectory(tmp_path)
    process = CliProcess(FakeCli().client(FakeCli().options), directory)
    address = auth.new_address()

    channel = auth.open_channel(plan, channel_limits(plan), Billing().hooks(), at=address)

    assert (channel.run_id, channel.token, channel.exhausted_limit) == (plan.run.run_id, address.token, None)
    assert isinstance(auth.meter(plan, channel, process), meter)
    await auth.close_channel(channel)
    assert channel.exhausted_limit == "ended"
    directory.remove()


def test_only_behind_the_gateway_a_process_can_warm_up(tmp_path: Path) -> None:
    at = by_gateway().new_address()

    assert by_login(tmp_path).warming_up(at) is None
    assert by_gateway().warming_up(at) is not None
