"""Accounts: accounts and their API keys in the database; checks the key of a request against its hash."""

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Unpack

import structlog

from app.auth import repository
from app.auth.browser_session_repository import find_valid_credentials
from app.auth.giving import new_terms, require_rights_of, require_scopes
from app.auth.keys import hash_key, is_key, mint_key, parse_scopes
from app.auth.new_keys import insert_new_key
from app.auth.records import AccountRecord, Credential, KeyOptions, KeyRecord, NewKey
from app.errors import Conflict, Invalid, NotFound, Unauthenticated, Unavailable
from app.ids import AccountId, ApiKeyId, new_uuid
from app.platform.audit.records import SERVER, Actor, Change
from app.platform.audit.repository import record_change
from app.platform.db import Database, Transaction
from app.platform.pagination import PageRequest
from app.requests.principal import (
    SCOPES,
    UNRESTRICTED,
    AccountSuspended,
    Principal,
    Scope,
)

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


class AccountNameTaken(Conflict):
    """There is another account of this name."""

    code = "account_name_taken"


class OwnAccount(Conflict):
    """An account cannot suspend itself."""

    code = "own_account"


class KeyEnded(Conflict):
    """This API key is revoked or has expired."""

    code = "key_ended"


class Accounts:
    """Creates, lists, checks and revokes API keys and their accounts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def authenticate(self, api_key: str | None) -> Principal:
        """The key's principal; raises `AccountSuspended`, and `Unauthenticated` for every other reason."""
        if api_key is None or not is_key(api_key):
            raise Unauthenticated
        return await self.find_holder(hash_key(api_key))

    async def find_holder(self, key_hash: bytes) -> Principal:
        """The principal of the key with this hash, which is in use; raises as `authenticate` does."""
        async with self._database.read() as reader:
            key = await repository.find_key_by_hash(reader, key_hash)
        principal = _usable(key)
        await self._record_use(principal.api_key_id, None if key is None else key.last_used_at)
        return principal

    async def principal_of(self, key_id: ApiKeyId) -> Principal:
        """The holder of a key, for what is done later; raises as `authenticate` does."""
        async with self._database.read() as reader:
            return _usable(await repository.find_key(reader, key_id))

    async def find_by_name(self, name: str) -> AccountRecord:
        """The account with this name; raises `AccountNotFound`."""
        # PostgreSQL refuses some of the names that are invalid here.
        if not _ACCOUNT_NAME.fullmatch(name):
            raise AccountNotFound
        async with self._database.read() as reader:
            account = await repository.find_account(reader, name)
        if account is None:
            raise AccountNotFound
        return account

    async def set_provider_profile(self, account: str, profile_id: str | None, *, by: Actor = SERVER) -> None:
        """Set or remove the user profile that the provider reports an account's calls under.

        Raises `AccountNotFound`, and `Invalid` for a malformed id or one of another account.
        """
        if profile_id is not None and not _PROFILE_ID.fullmatch(profile_id):
            raise Invalid.field("profile", "must be the provider's id of a user profile: uprof_…")
        found = await self.find_by_name(account)
        async with self._database.transaction() as tx:
            if not await repository.set_provider_profile(tx, found.id, profile_id):
                raise Invalid.field("profile", "is that of another account")
            change = Change(found.id, "account.profile_set", str(found.id), after={"profile": profile_id})
            await record_change(tx, by, change)

    async def find_provider_profiles(self) -> dict[str, AccountId]:
        """The accounts that have a user profile at the provider, by its id."""
        async with self._database.read() as reader:
            return await repository.find_provider_profiles(reader)

    async def find_names(self, account_ids: Collection[AccountId]) -> dict[AccountId, str]:
        async with self._database.read() as reader:
            return await repository.find_names(reader, account_ids)

    async def find_key_names(self, account_id: AccountId) -> dict[ApiKeyId, str]:
        """The names of an account's keys, revoked or not; of a key without one, how it begins."""
        async with self._database.read() as reader:
            return await repository.find_key_names(reader, account_id)

    async def list_accounts(self, page: PageRequest) -> tuple[list[AccountRecord], str | None]:
        """Accounts, newest first, and the cursor of the next page."""
        async with self._database.read() as reader:
            found = await repository.find_accounts(reader, page)
        return page.cut(found, lambda account: (account.created_at, account.id))

    async def create_account(self, name: str, *, by: Actor = SERVER) -> AccountRecord:
        """Create an account; raises `Invalid`, `AccountNameTaken`."""
        _check_name("name", name)
        async with self._database.transaction() as tx:
            if (account := await self._insert_account(tx, name, by)) is None:
                raise AccountNameTaken
            return account

    async def change_account(
        self,
        account_id: AccountId,
        *,
        name: str | None = None,
        suspended: bool | None = None,
        by: Actor = SERVER,
    ) -> AccountRecord:
        """Rename, suspend or resume an account; raises `Invalid`, `AccountNameTaken`, `OwnAccount`."""
        if name is not None:
            _check_name("name", name)
        if suspended and by.account_id == account_id:
            raise OwnAccount
        async with self._database.transaction() as tx:
            before = await repository.lock_account(tx, account_id)
            if name not in {None, before.name} and await repository.find_account(tx, name or "") is not None:
                raise AccountNameTaken
            was_suspended = before.suspended_at is not None
            after = await repository.update_account(
                tx,
                account_id,
                name=name or before.name,
                is_suspended=was_suspended if suspended is None else suspended,
            )
            if after.name != before.name:
                names = {"name": before.name}, {"name": after.name}
                await record_change(tx, by, Change(account_id, "account.renamed", str(account_id), *names))
            if (after.suspended_at is None) == was_suspended:
                action = "account.resumed" if was_suspended else "account.suspended"
                await record_change(tx, by, Change(account_id, action, str(account_id)))
        return after

    async def create_key(
        self,
        account: str,
        scopes: Sequence[str],
        *,
        by: Actor = SERVER,
        **options: Unpack[KeyOptions],
    ) -> tuple[KeyRecord, str]:
        """Create a key, and its account if there is none; returns the record and the key itself.

        The key cannot be retrieved later. Raises `Invalid` naming the wrong field.
        """
        _check_name("account", account)
        allowed, secret, key_id = parse_scopes(scopes), mint_key(), ApiKeyId(new_uuid())
        terms = new_terms(None, key_id, options)
        async with self._database.transaction() as tx:
            created = await self._insert_account(tx, account, by) or await repository.find_account(
                tx, account
            )
            if created is None:
                raise AccountNotFound
            new = NewKey(key_id, created.id, secret, allowed, options.get("name"), terms)
            return await insert_new_key(tx, new, by), secret

    async def give_key(
        self,
        giver: Principal,
        account: str,
        scopes: Sequence[str],
        *,
        by: Actor,
        **options: Unpack[KeyOptions],
    ) -> tuple[KeyRecord, str]:
        """Create a key that may do at most what its giver may; returns the record and the key itself.

        Raises `AccountNotFound`, `ExceedsOwnRights`, `Invalid` naming the wrong field, and `Unauthenticated`
        if the giver's key has ended meanwhile.
        """
        allowed, secret, key_id = parse_scopes(scopes), mint_key(), ApiKeyId(new_uuid())
        require_scopes(giver, allowed)
        terms = new_terms(giver, key_id, options)
        found = await self.find_visible(giver, account)
        async with self._database.transaction() as tx:
            await self.require_active_key(tx, giver.api_key_id)
            new = NewKey(key_id, found.id, secret, allowed, options.get("name"), terms)
            return await insert_new_key(tx, new, by), secret

    async def replace_key(
        self, tx: Transaction, key_id: ApiKeyId, overlap: timedelta, *, caller: Principal | None, by: Actor
    ) -> tuple[KeyRecord, str]:
        """Create a key with the same rights, and let the old one end after a time.

        `caller` is None for an operator. Raises `KeyNotFound`, `KeyEnded`, `ExceedsOwnRights`,
        `Unauthenticated`.
        """
        if caller is not None and caller.api_key_id != key_id:
            await repository.lock_keys(tx, (caller.api_key_id, key_id))
            await self.require_active_key(tx, caller.api_key_id)
        old = await self._lock_visible(tx, caller, key_id)
        if old.is_ended:
            raise KeyEnded
        if caller is not None:
            require_rights_of(caller, old)
        secret, scopes = mint_key(), parse_scopes(old.scopes)
        new = NewKey(ApiKeyId(new_uuid()), old.account_id, secret, scopes, old.name, old.terms, old.id)
        replacement = await insert_new_key(tx, new, by, replaces=old)
        await repository.end_after(tx, old.id, overlap)
        return replacement, secret

    async def list_keys(self) -> list[KeyRecord]:
        async with self._database.read() as reader:
            return await repository.find_all_keys(reader)

    async def list_account_keys(
        self, account_id: AccountId, page: PageRequest
    ) -> tuple[list[KeyRecord], str | None]:
        """An account's keys, newest first, and the cursor of the next page."""
        async with self._database.read() as reader:
            found = await repository.find_account_keys(reader, account_id, page)
        return page.cut(found, lambda key: (key.created_at, key.id))

    async def revoke_key(
        self, key_id: ApiKeyId, *, caller: Principal | None = None, by: Actor = SERVER
    ) -> None:
        """Revoke a key with immediate effect; `caller` is None for an operator.

        Raises `KeyNotFound`, and `ScopeMissing` for an operator's key and another caller.
        """
        async with self._database.transaction() as tx:
            key = await self._lock_visible(tx, caller, key_id)
            if caller is not None and "admin" in key.scopes:
                caller.require("admin")
            if key.revoked_at is None:
                await repository.revoke(tx, key_id)
                await record_change(tx, by, Change(key.account_id, "key.revoked", str(key_id)))

    async def find_visible(self, caller: Principal, name: str) -> AccountRecord:
        """The account of this name, if it is the caller's or the caller may manage all.

        Raises `AccountNotFound`.
        """
        account = await self.find_by_name(name)
        if account.id != caller.account_id and not caller.may("admin"):
            raise AccountNotFound
        return account

    async def find_valid_credentials(self, credentials: set[Credential]) -> set[Credential]:
        """The subset of these credentials that is still valid."""
        async with self._database.read() as reader:
            return await find_valid_credentials(reader, credentials)

    async def find_active_keys(self, key_ids: set[ApiKeyId]) -> set[ApiKeyId]:
        """The subset of these keys that has not ended."""
        async with self._database.read() as reader:
            return await repository.find_active_keys(reader, key_ids)

    async def erase_end_user(self, tx: Transaction, account_id: AccountId, end_user: str) -> None:
        """Label no runs with an end user any more; keys and sessions that are fixed to it end."""
        await repository.erase_end_user(tx, account_id, end_user)

    async def require_active_key(self, tx: Transaction, key_id: ApiKeyId) -> None:
        """Raise `Unauthenticated` for a key that has ended, `AccountSuspended`.

        An active one is not revoked, nor its account suspended, until the transaction ends.
        """
        state = await repository.lock_active_key(tx, key_id)
        if state is None or state.is_ended:
            raise Unauthenticated
        if state.is_suspended:
            raise AccountSuspended

    async def ensure_key(
        self,
        secret: str,
        *,
        account: str = BOOTSTRAP_ACCOUNT,
        scopes: Sequence[Scope] = SCOPES,
        name: str = "bootstrap",
    ) -> KeyRecord:
        """Create this key unless it exists; does not restore a revoked one."""
        async with self._database.transaction() as tx:
            # First, because its account may have another name by now.
            key = await repository.find_key_by_hash(tx, hash_key(secret))
            if key is None:
                owner = await self._insert_account(tx, account, SERVER) or await repository.find_account(
                    tx, account
                )
                if owner is None:
                    raise AccountNotFound
                key_id = ApiKeyId(new_uuid())
                new = NewKey(key_id, owner.id, secret, tuple(scopes), name, UNRESTRICTED)
                key = await insert_new_key(tx, new, SERVER)
        return key

    async def _insert_account(self, tx: Transaction, name: str, by: Actor) -> AccountRecord | None:
        account = await repository.insert_account(tx, name)
        if account is not None:
            change = Change(account.id, "account.created", str(account.id), after={"name": name})
            await record_change(tx, by, change)
        return account

    async def _lock_visible(self, tx: Transaction, caller: Principal | None, key_id: ApiKeyId) -> KeyRecord:
        key = await repository.lock_key(tx, key_id)
        is_hidden = (
            key is not None
            and caller is not None
            and key.account_id != caller.account_id
            and not caller.may("admin")
        )
        if key is None or is_hidden:
            raise KeyNotFound
        return key

    async def _record_use(self, key_id: ApiKeyId, noted: datetime | None) -> None:
        if noted is not None and datetime.now(UTC) - noted < USE_RECORD_INTERVAL:
            return
        try:
            async with self._database.transaction() as tx:
                await repository.record_key_use(tx, key_id, if_older_than=USE_RECORD_INTERVAL)
        except Unavailable as error:
            # The request is authenticated nevertheless.
            log.warning("key.use_not_recorded", reason=error.detail)


def _check_name(field: str, name: str) -> None:
    if not _ACCOUNT_NAME.fullmatch(name):
        raise Invalid.field(field, "must be letters, digits, dots, dashes or underscores")


def _usable(key: KeyRecord | None) -> Principal:
    if key is None or key.is_ended:
        raise Unauthenticated
    if key.is_suspended:
        raise AccountSuspended
    return key.principal
