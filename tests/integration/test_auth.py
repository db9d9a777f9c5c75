from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from app.auth.accounts import Accounts, KeyNotFound
from app.auth.keys import mint_key
from app.errors import Forbidden, Invalid, Unauthenticated
from app.ids import ApiKeyId, new_uuid
from app.platform.db import Database
from app.requests.principal import SCOPES


async def test_a_key_authenticates_until_it_is_revoked(database: Database) -> None:
    accounts = Accounts(database)
    record, secret = await accounts.create_key("acme", ["runs:read"], name="laptop")

    principal = await accounts.authenticate(secret)
    await accounts.revoke_key(record.id)
    await accounts.revoke_key(record.id)

    assert principal.account_id == record.account_id
    assert principal.scopes == {"runs:read"}
    with pytest.raises(Forbidden, match="receipts:read"):
        principal.require("receipts:read")
    with pytest.raises(Unauthenticated):
        await accounts.authenticate(secret)


async def test_keys_are_stored_as_hashes(database: Database) -> None:
    _, secret = await Accounts(database).create_key("acme", ["runs:read"])

    async with database.snapshot() as reader:
        rows = (await reader.execute(text("SELECT api_keys::text FROM api_keys"))).scalars().all()

    assert secret[3:] not in "".join(rows)
    assert secret.encode().hex() not in "".join(rows)


async def test_use_of_a_key_is_recorded_at_intervals(database: Database) -> None:
    accounts = Accounts(database)
    _, secret = await accounts.create_key("acme", ["runs:read"])

    await accounts.authenticate(secret)
    (first,) = await accounts.list_keys()
    await accounts.authenticate(secret)
    (second,) = await accounts.list_keys()

    assert first.last_used_at is not None
    assert datetime.now(UTC) - first.last_used_at < timedelta(minutes=1)
    assert second.last_used_at == first.last_used_at


async def test_an_account_is_created_once(database: Database) -> None:
    accounts = Accounts(database)

    one, _ = await accounts.create_key("acme", ["runs:read"])
    two, _ = await accounts.create_key("acme", ["runs:write"])
    other, _ = await accounts.create_key("other", ["runs:read"])

    assert one.account_id == two.account_id != other.account_id


async def test_wrong_names_and_scopes_are_named(database: Database) -> None:
    accounts = Accounts(database)

    with pytest.raises(Invalid, match="account"):
        await accounts.create_key("no spaces here", ["runs:read"])
    with pytest.raises(Invalid, match="root"):
        await accounts.create_key("acme", ["root"])
    with pytest.raises(KeyNotFound):
        await accounts.revoke_key(ApiKeyId(new_uuid()))
    assert await accounts.list_keys() == []


async def test_the_bootstrap_key_is_created_once_and_stays_revoked(database: Database) -> None:
    accounts, secret = Accounts(database), mint_key()

    made = await accounts.ensure_key(secret)
    again = await accounts.ensure_key(secret)
    principal = await accounts.authenticate(secret)
    await accounts.revoke_key(made.id)
    revoked = await accounts.ensure_key(secret)

    assert made.id == again.id == revoked.id
    assert principal.scopes == set(SCOPES)
    assert revoked.revoked_at is not None
    with pytest.raises(Unauthenticated):
        await accounts.authenticate(secret)
