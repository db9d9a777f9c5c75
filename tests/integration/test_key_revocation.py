"""Revoking an API key, with and without its runs."""

from pathlib import Path

import pytest

from app.auth.accounts import Accounts
from app.errors import Unauthenticated
from app.ids import RunId, RunKey
from app.platform.db import Database
from app.runs.requests.posted import PostedRun
from app.runs.revocation.service import KeyRevocation
from tests.e2e.stories import until
from tests.factories import an_account
from tests.integration.commanded import a_pair, ended
from tests.integration.run_process import a_run_elsewhere, record_of
from tests.integration.run_service import ONCE, OpenCore, a_request, caller_of


async def test_the_runs_of_a_revoked_key_are_cancelled_only_on_request(
    open_core: OpenCore, database: Database
) -> None:
    key = await an_account(database)
    run = RunKey(key.account_id, RunId("run-1"))
    revocation = KeyRevocation(database, Accounts(database).revoke_key)
    async with open_core() as core:
        plan = core.planner.plan(run, a_request(ONCE), api_key_id=key.id, request_id=None)
        assert await core.acceptance.accept(PostedRun(run, caller_of(key), a_request(ONCE)), plan)

        stopped = await revocation.revoke(key.id, stop_runs=False)
        kept = await record_of(database, run)
        stops = [await revocation.revoke(key.id, stop_runs=True) for _ in range(2)]

        assert (stopped, kept.interruption, stops) == (0, None, [1, 1])
        assert (await record_of(database, run)).is_cancelled
        with pytest.raises(Unauthenticated):
            await core.service.start(caller_of(key), a_request(ONCE), request_id=None)


async def test_a_server_lets_the_runs_of_a_revoked_key_stop_at_once(
    database: Database, tmp_path: Path, redis_url: str
) -> None:
    async with a_pair(database, tmp_path, redis_url, within_s=2) as pair:
        key_id = (await record_of(database, pair.run)).api_key_id
        (record,) = [each for each in await Accounts(database).list_keys() if each.id == key_id]
        # One whose process does not answer holds up none of the others.
        await a_run_elsewhere(database, record, name="run-2")
        commands = pair.here.commands
        revocation = KeyRevocation(
            database, Accounts(database).revoke_key, deliver_cancels=commands.deliver_cancels
        )

        stopped = await revocation.revoke(key_id, stop_runs=True)
        await until(pair.agent.control.stop.is_set)
        final = await ended(database, pair.run)

    assert (stopped, final.status) == (2, "cancelled")
