"""Accounts: accounts and their API keys; authenticates requests by key."""

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

import structlog

from app.auth.browser_session_repository import find_valid_credentials
from app.auth.keys import hash_key, is_key, key_prefix, mint_key, parse_scopes
from app.auth.records import AccountRecord, Credential, KeyRecord
from app.auth.repository import (
    find_account,
    find_account_keys,
    find_accounts,
    find_all_keys,
    find_key,
    find_key_by_hash,
    find_names,
    find_provider_profiles,
    get_or_create_account,
    insert_key,
    lock_active_key,
    record_key_use,
    revoke,
    set_provider_profile,
)
from app.errors import Invalid, NotFound, Unauthenticated, Unavailable
from app.ids import AccountId, ApiKeyId
from app.platform.db import Database, Transaction
from app.platform.pagination import PageRequest
from app.requests.principal import SCOPES, Principal, Scope

log = structlog.get_logger(__name__)

BOOTSTRAP_ACCOUNT = "default"
USE_RECORD_INTERVAL = timedelta(minutes=1)

_PROFILE_ID = re.compile(r"uprof_[A-Za-z0-9]{1,100}")
_ACCOUNT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class AccountNotFound(NotFound):
    """There is no account of this name."""

    code = "account_not_found"


class KeyNotFound(NotFound):
    """There is no API key with this id."""

    code = "key_not_found"


class Accounts:
    """Creates, lists, checks and revokes API keys and their accounts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def authenticate(self, api_key: str | None) -> Principal:
        """The key's principal; raises the same `Unauthenticated` for every reason."""
        if api_key is None or not is_key(api_key):
            raise Unauthenticated
        async with self._database.read() as reader:
            key = await find_key_by_hash(reader, hash_key(api_key))
        if key is None or key.revoked_at is not None:
            raise Unauthenticated
        await self._record_use(key)
        return Principal(key.account_id, key.id, frozenset(key.scopes))

    async def principal_of(self, key_id: ApiKeyId) -> Principal:
        """The holder of a key, for what is done later; raises `Unauthenticated` if it is revoked."""
        async with self._database.read() as reader:
            key = await find_key(reader, key_id)
        if key is None or key.revoked_at is not None:
            raise Unauthenticated
        return Principal(key.account_id, key.id, frozenset(key.scopes))

    async def find_by_name(self, name: str) -> AccountRecord:
        """The account with this name; raises `AccountNotFound`."""
        # PostgreSQL refuses some of the names that are invalid here.
        if not _ACCOUNT_NAME.fullmatch(name):
            raise AccountNotFound
        async with self._database.read() as reader:
            account = await find_account(reader, name)
        if account is None:
            raise AccountNotFound
        return account

    async def set_provider_profile(self, account: str, profile_id: str | None) -> None:
        """Set or remove the user profile that the provider reports an account's calls under.

        Raises `AccountNotFound`, and `Invalid` for a malformed id or one of another account.
        """
        if profile_id is not None and not _PROFILE_ID.fullmatch(profile_id):
            raise Invalid.field("profile", "must be the provider's id of a user profile: uprof_…")
        found = await self.find_by_name(account)
        async with self._database.transaction() as tx:
            if not await set_provider_profile(tx, found.id, profile_id):
                raise Invalid.field("profile", "is that of another account")

    async def find_provider_profiles(self) -> dict[str, AccountId]:
        """The accounts that have a user profile at the provider, by its id."""
        async with self._database.read() as reader:
            return await find_provider_profiles(reader)

    async def find_names(self, account_ids: Collection[AccountId]) -> dict[AccountId, str]:
        """The names of these accounts."""
        async with self._database.read() as reader:
            return await find_names(reader, account_ids)

    async def list_accounts(self, page: PageRequest) -> tuple[list[AccountRecord], str | None]:
        """Accounts, newest first, and the cursor of the next page."""
        async with self._database.read() as reader:
            found = await find_accounts(reader, page)
        return page.cut(found, lambda account: (account.created_at, account.id))

    async def create_key(
        self,
        account: str,
        scopes: Sequence[str],
        *,
        name: str | None = None,
    ) -> tuple[KeyRecord, str]:
        """Create a key, and its account if there is none; returns the record and the key itself.

        The key cannot be retrieved later. Raises `Invalid` naming the wrong field.
        """
        if not _ACCOUNT_NAME.fullmatch(account):
            raise Invalid.field("account", "must be letters, digits, dots, dashes or underscores")
        allowed = parse_scopes(scopes)
        secret = mint_key()
        return await self._insert(secret, account, allowed, name=name), secret

    async def list_keys(self) -> list[KeyRecord]:
        """Every key, oldest first."""
        async with self._database.read() as reader:
            return await find_all_keys(reader)

    async def list_account_keys(
        self, account_id: AccountId, page: PageRequest
    ) -> tuple[list[KeyRecord], str | None]:
        """An account's keys, newest first, and the cursor of the next page."""
        async with self._database.read() as reader:
            found = await find_account_keys(reader, account_id, page)
        return page.cut(found, lambda key: (key.created_at, key.id))

    async def revoke_key(self, key_id: ApiKeyId) -> None:
        """Revoke a key with immediate effect; raises `KeyNotFound`."""
        async with self._database.transaction() as tx:
            if not await revoke(tx, key_id):
                raise KeyNotFound

    async def find_valid_credentials(self, credentials: set[Credential]) -> set[Credential]:
        """The subset of these credentials that is still valid."""
        async with self._database.read() as reader:
            return await find_valid_credentials(reader, credentials)

    async def find_active_keys(self, key_ids: set[ApiKeyId]) -> set[ApiKeyId]:
        """The subset of these keys that is not revoked."""
        valid = await self.find_valid_credentials({Credential(key_id, None) for key_id in key_ids})
        return {credential.api_key_id for credential in valid}

    async def require_active_key(self, tx: Transaction, key_id: ApiKeyId) -> None:
        """Raise `Unauthenticated` for a revoked key; an active one stays so until the transaction ends."""
        if not await lock_active_key(tx, key_id):
            raise Unauthenticated

    async def ensure_key(self, secret: str, *, account: str = BOOTSTRAP_ACCOUNT) -> KeyRecord:
        """Create this key with all scopes unless it exists; does not restore a revoked one."""
        key = await self._insert(secret, account, SCOPES, name="bootstrap")
        if key.revoked_at is not None:
            log.warning("bootstrap_key.revoked", key_id=str(key.id))
        return key

    async def _insert(
        self,
        secret: str,
        account: str,
        scopes: tuple[Scope, ...],
        *,
        name: str | None,
    ) -> KeyRecord:
        async with self._database.transaction() as tx:
            account_id = await get_or_create_account(tx, account)
            await insert_key(
                tx,
                account_id,
                key_hash=hash_key(secret),
                prefix=key_prefix(secret),
                scopes=scopes,
                name=name,
            )
            key = await find_key_by_hash(tx, hash_key(secret))
        if key is None:
            raise KeyNotFound
        return key

    async def _record_use(self, key: KeyRecord) -> None:
        noted = key.last_used_at
        if noted is not None and datetime.now(UTC) - noted < USE_RECORD_INTERVAL:
            return
        try:
            async with self._database.transaction() as tx:
                await record_key_use(tx, key.id, if_older_than=USE_RECORD_INTERVAL)
        except Unavailable as error:
            # The request is authenticated nevertheless.
            log.warning("key.use_not_recorded", reason=error.detail)
