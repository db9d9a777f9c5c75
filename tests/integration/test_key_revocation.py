"""Revoking an API key, with and without its runs."""

from pathlib import Path

import pytest

from app.auth.accounts import Accounts
from app.db import Database
from app.errors import Unauthenticated
from app.ids import RunId, RunKey
from app.runs.commands.repository import pending_commands
from app.runs.revocation.service import KeyRevocation
from tests.factories import an_account
from tests.integration.run_service import ONCE, a_core, a_request, caller_of


async def test_the_runs_of_a_revoked_key_are_stopped_once_and_only_on_request(
    database: Database, tmp_path: Path
) -> None:
    key = await an_account(database)
    run = RunKey(key.account_id, RunId("run-1"))
    revocation = KeyRevocation(database, Accounts(database).revoke_key)
    async with a_core(database, tmp_path) as core:
        plan = core.planner.plan(run, a_request(ONCE), api_key_id=key.id, request_id=None)
        assert await core.acceptance.accept(caller_of(key), a_request(ONCE), plan, fingerprint=b"")

        kept = await revocation.revoke(key.id, stop_runs=False)
        stops = [await revocation.revoke(key.id, stop_runs=True) for _ in range(2)]

        async with database.transaction() as tx:
            commands = await pending_commands(tx, run)
        assert (kept, stops) == (0, [1, 1])
        assert (commands.count, list(commands.stops)) == (1, ["cancel"])
        with pytest.raises(Unauthenticated):
            await core.service.start(caller_of(key), a_request(ONCE), request_id=None)
