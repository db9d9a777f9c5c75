"""Runs of keys with limits are queued in the database; commands that make such keys are in the audit log."""

import json

import pytest
from anyio import fail_after, to_thread
from typer.testing import CliRunner

from app.auth.accounts import Accounts
from app.cli.main import app
from app.platform.audit.records import Actor, AuditFilter
from app.platform.audit.service import AuditLog
from app.platform.db import Database
from app.platform.pagination import PageRequest
from app.runs.dispatch.limits import DispatchLimits
from tests.integration.run_queue import Queue
from tests.patience import PATIENCE_S


async def test_a_keys_runs_wait_for_those_of_keys_that_were_made_with_it(database: Database) -> None:
    accounts, worker = Accounts(database), Queue(database, DispatchLimits(100, per_account=10))
    parent, _ = await accounts.create_key("acme", ["runs:write", "keys:write"], concurrent_runs=2)
    scopes, by = ["runs:write"], Actor("http", parent.id, parent.account_id)
    child, _ = await accounts.give_key(parent.principal, "acme", scopes, by=by, concurrent_runs=1)
    other, _ = await accounts.create_key("acme", ["runs:write"])
    for key, name in ((child, "c1"), (child, "c2"), (parent, "p1"), (parent, "p2"), (other, "o1")):
        await worker.post(key, name)

    assert await worker.held() == {"c1": None, "c2": "limit", "p1": None, "p2": "limit", "o1": None}
    await worker.claim()
    await worker.end(parent, "p1")
    assert await worker.held() == {"c2": "limit", "p2": None}
    await worker.claim()
    await worker.end(child, "c1")
    assert await worker.held() == {"c2": None}


async def test_commands_print_the_key_alone_and_are_in_the_audit_log(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)

    async def printed(*arguments: str) -> str:
        with fail_after(PATIENCE_S):
            result = await to_thread.run_sync(CliRunner().invoke, app, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    limits = ("--graph", "messages:*", "--concurrent-runs", "2", "--expires-at", "2099-01-01")
    labels = ("--end-user", "ann", "--tag", "team:a:b", "--tag", "env:prod", "--fixed-labels")
    created = json.loads(await printed("accounts", "create", "acme", "--json"))
    key = await printed("keys", "create", "--account", "acme", "--scope", "runs:write", *limits, *labels)
    (listed,) = json.loads(await printed("keys", "list", "--json"))
    rotated = json.loads(await printed("keys", "rotate", listed["id"], "--overlap-s", "0", "--json"))
    await printed("accounts", "suspend", "acme", "--stop-runs")
    suspended = (await printed("accounts", "list")).splitlines()[1]
    await printed("accounts", "resume", "acme")
    await printed("keys", "revoke", rotated["id"])
    entries, _ = await AuditLog(database).list_entries(AuditFilter(), PageRequest(50))

    assert [account["name"] for account in created] == ["acme"]
    assert key.startswith(listed["prefix"])
    assert key.count("\n") == 1
    assert (listed["graphs"], listed["limits"]["concurrentRuns"]) == (["messages:*"], 2)
    assert listed["expiresAt"] == rotated["expiresAt"] == "2099-01-01T00:00:00Z"
    wanted = {"endUser": "ann", "tags": {"team": "a:b", "env": "prod"}, "fixed": True}
    assert listed["labels"] == rotated["labels"] == wanted
    assert suspended.split()[1:] == ["acme", "suspended"]
    assert [entry.action for entry in reversed(entries)] == [
        *("account.created", "key.created", "key.rotated"),
        *("account.suspended", "account.resumed", "key.revoked"),
    ]
    assert {entry.via for entry in entries} == {"command"}
    assert all(entry.address for entry in entries)


@pytest.mark.parametrize(
    ("labels", "option"),
    [
        (("--fixed-labels",), "--fixed-labels"),
        (("--tag", "team"), "--tag"),
        (("--tag", ":search"), "--tag"),
        (("--end-user", ""), "--end-user"),
    ],
)
def test_labels_that_say_nothing_name_their_option(labels: tuple[str, ...], option: str) -> None:
    wanted = ("keys", "create", "--account", "acme", "--scope", "runs:write")

    result = CliRunner().invoke(app, (*wanted, *labels))

    assert result.exit_code == 2
    assert f"Invalid value for {option}" in result.output
