"""The user profile that the provider reports an account's calls under."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from app.auth.accounts import AccountNotFound, Accounts
from app.auth.provider_profiles import ProviderProfiles
from app.auth.records import KeyRecord
from app.billing.prices.price_list import PriceList
from app.billing.reconciliation.calls.counter import CallCounter
from app.billing.reconciliation.provider.reports import ProviderReports
from app.billing.reconciliation.records import HOUR, ReconciledWindow, Window, floor_to
from app.billing.reconciliation.service import Reconciliation, ReconciliationConfig
from app.cli.reconcile import set_profile
from app.errors import Invalid
from app.ids import RunId, RunKey, new_uuid
from app.platform.db import Database
from app.platform.settings import Settings
from app.simulator.script import Answer, ApiRequest, HttpError, Reply, Text, in_turn
from tests.factories import an_account
from tests.integration.billed_gateway import MODEL, BilledGateway, a_billed_gateway
from tests.integration.gateway_seam import PROVIDER_KEY
from tests.provider.simulator import ReportingSimulator

BODY = {"model": MODEL, "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}
STREAMED = {**BODY, "stream": True}
PROFILE = "anthropic-user-profile-id"
USAGE = {"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": 70, "inference_geo": "us"}


@dataclass
class Shop:
    """An agent's way to the scripted provider, and what is counted of its calls."""

    database: Database
    simulator: ReportingSimulator
    gateway: BilledGateway
    calls: CallCounter

    async def post(self, key: KeyRecord, *bodies: object, **headers: str) -> None:
        """A run whose agent posts these requests."""
        run_id = f"run-{new_uuid()}"
        channel = self.gateway.channel(key, run_id)
        try:
            for body in bodies:
                await self.gateway.call(channel, body, **headers)
        finally:
            await self.gateway.gateway.close_channel(channel)
            run = RunKey(key.account_id, RunId(run_id))
            await self.gateway.metering.receipts.flush(run, within_s=0)

    async def compared(self) -> ReconciledWindow:
        """Compare the hours around now."""
        await self.gateway.delivery.aclose()
        await self.calls.flush()
        start = floor_to(datetime.now(UTC), HOUR) - HOUR
        reports = self.simulator.reports
        async with ProviderReports(base_url=self.simulator.url, admin_key=reports.admin_key) as provider:
            reconciliation = Reconciliation(
                self.database,
                PriceList(),
                provider,
                config=ReconciliationConfig(run_key=PROVIDER_KEY),
                find_profiles=Accounts(self.database).find_provider_profiles,
            )
            window = Window(start, start + timedelta(hours=3))
            found = [each async for each in reconciliation.compare(window)]
        return ReconciledWindow(
            window,
            [hour for each in found for hour in each.hours],
            [difference for each in found for difference in each.differences],
            [price for each in found for price in each.prices],
            prices_audited=True,
            summary={},
        )


@asynccontextmanager
async def a_shop(database: Database, directory: Path, *answers: Answer) -> AsyncIterator[Shop]:
    profiles, calls = ProviderProfiles(Accounts(database)), CallCounter(database)
    await profiles.refresh()
    async with (
        ReportingSimulator(in_turn(*answers)) as simulator,
        a_billed_gateway(
            *(database, simulator.url, directory), delivers=False, calls=calls, find_profile=profiles.find
        ) as gateway,
    ):
        yield Shop(database, simulator, gateway, calls)


def sent_headers(request: ApiRequest) -> tuple[str | None, str | None]:
    return request.headers.get(PROFILE), request.headers.get("anthropic-beta")


async def test_only_the_operator_chooses_the_profile_of_a_call(database: Database, tmp_path: Path) -> None:
    key, other = await an_account(database), await an_account(database, "other")
    await Accounts(database).set_provider_profile("acme", "uprof_acme")
    reply = Reply([Text("hello")])
    async with a_shop(database, tmp_path, reply, reply) as shop:
        await shop.post(key, BODY, **{PROFILE: "uprof_forged", "anthropic-beta": "one-2026-01-01"})
        await shop.post(other, BODY, **{"Anthropic-User-Profile-Id": "uprof_forged"})

        assert [sent_headers(each) for each in shop.simulator.requests] == [
            ("uprof_acme", "one-2026-01-01,user-profiles-2026-09-04"),
            (None, None),
        ]


async def test_what_the_gateway_billed_is_what_the_provider_reports(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    replies: list[Answer] = [
        Reply([Text("one two three")], usage=USAGE, final_usage={"output_tokens": 40}),
        HttpError(529, "overloaded_error"),
        Reply(
            [Text("four")], usage=USAGE, final_usage={"output_tokens": 7}, model="claude-opus-4-8-20260301"
        ),
        Reply([Text("five six seven eight")], usage=USAGE, cut_after=5),
    ]
    async with a_shop(database, tmp_path, *replies) as shop:
        await shop.post(key, STREAMED, BODY, BODY)
        with pytest.raises(httpx.RemoteProtocolError):
            await shop.post(key, STREAMED)
        result = await shop.compared()

    assert {each.cause for each in result.differences} <= {"estimated", "shifted"}
    assert not result.prices
    assert sum(hour.receipts for hour in result.hours) == 3


async def test_the_command_sets_and_removes_a_profile(
    database: Database, key: KeyRecord, database_url: str, tmp_path: Path
) -> None:
    await an_account(database, "other")
    settings = Settings.load(_env_file=None, DATABASE_URL=database_url, RUNTALLY_DATA_DIR=tmp_path)
    console, profiles = Console(file=io.StringIO()), ProviderProfiles(Accounts(database))

    await set_profile(settings, console, "acme", "uprof_1")
    await profiles.refresh()
    assert profiles.find(key.account_id) == "uprof_1"
    for account, profile in (("other", "uprof_1"), ("acme", "uprof 2"), ("acme", "profile")):
        with pytest.raises(Invalid):
            await set_profile(settings, console, account, profile)
    with pytest.raises(AccountNotFound):
        await set_profile(settings, console, "nobody", "uprof_2")

    await set_profile(settings, console, "acme", "none")
    await profiles.refresh()
    assert profiles.find(key.account_id) is None
