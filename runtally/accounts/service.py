"""Accounts and AsyncAccounts: accounts, their API keys and the audit log."""

from collections.abc import AsyncIterator, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Unpack

from pydantic.alias_generators import to_camel

from runtally.accounts import calls
from runtally.accounts.types import (
    Account,
    AccountBalance,
    ApiKey,
    AuditEntry,
    AuditFilters,
    GrantTerms,
    KeyOptions,
    RetentionDays,
)
from runtally.protocol.call import AsyncSend, Send
from runtally.protocol.pages import each, each_async

DEFAULT_OVERLAP_S = 3600


class Accounts:
    """Creating and changing accounts needs `admin`; the keys of the own account need `keys:write`."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def create(self, name: str) -> Account:
        """Create an account."""
        return self._send(calls.create_account(name))

    def list(self) -> Iterator[Account]:
        """All accounts, newest first."""
        return each(self._send, calls.list_accounts)

    def get(self, name: str) -> AccountBalance:
        """The credit of an account, and for how long it keeps contents."""
        return self._send(calls.get_account(name))

    def grant(self, name: str, usd: Decimal, **terms: Unpack[GrantTerms]) -> AccountBalance:
        """Add credit, for a time or for ever."""
        return self._send(calls.change_credit(name, usd, kind="grants", terms=terms))

    def adjust(self, name: str, usd: Decimal, *, note: str) -> AccountBalance:
        """Correct credit by an amount of either sign."""
        return self._send(calls.change_credit(name, usd, kind="adjustments", terms={"note": note}))

    def retain(self, name: str, **days: Unpack[RetentionDays]) -> None:
        """Keep contents for fewer days than by default; None: as by default."""
        changed = {to_camel(kind): value for kind, value in days.items()}
        self._send(calls.change_account(name, {"retention": changed}))

    def rename(self, name: str, new_name: str) -> None:
        """Give an account another name."""
        self._send(calls.change_account(name, {"name": new_name}))

    def suspend(self, name: str, *, stop_runs: bool = False) -> None:
        """Refuse the keys of an account; `stop_runs` also cancels its runs."""
        self._send(calls.change_account(name, {"suspended": True, "stopRuns": stop_runs}))

    def resume(self, name: str) -> None:
        """Accept the keys of a suspended account again."""
        self._send(calls.change_account(name, {"suspended": False}))

    def create_key(self, account: str, scopes: Sequence[str], **options: Unpack[KeyOptions]) -> ApiKey:
        """Create a key, which has at most the rights of the client's; its `key` is shown only here."""
        return self._send(calls.create_key(account, scopes, options))

    def keys(self, account: str) -> Iterator[ApiKey]:
        """The keys of an account, newest first."""
        return each(self._send, partial(calls.list_keys, account))

    def rotate_key(self, key_id: str, *, overlap_s: int = DEFAULT_OVERLAP_S) -> ApiKey:
        """Create a key with the same rights; the old one ends after the overlap."""
        return self._send(calls.rotate_key(key_id, overlap_s))

    def revoke_key(self, key_id: str, *, stop_runs: bool = False) -> None:
        """Revoke a key; `stop_runs` also cancels its runs."""
        self._send(calls.revoke_key(key_id, stop_runs=stop_runs))

    def audit(self, **filters: Unpack[AuditFilters]) -> Iterator[AuditEntry]:
        """What was done to accounts, keys and credit, newest first."""
        return each(self._send, partial(calls.list_audit, filters))


class AsyncAccounts:
    """The same for asyncio."""

    def __init__(self, send: AsyncSend) -> None:
        self._send = send

    async def create(self, name: str) -> Account:
        """Create an account."""
        return await self._send(calls.create_account(name))

    def list(self) -> AsyncIterator[Account]:
        """All accounts, newest first."""
        return each_async(self._send, calls.list_accounts)

    async def get(self, name: str) -> AccountBalance:
        """The credit of an account, and for how long it keeps contents."""
        return await self._send(calls.get_account(name))

    async def grant(self, name: str, usd: Decimal, **terms: Unpack[GrantTerms]) -> AccountBalance:
        """Add credit, for a time or for ever."""
        return await self._send(calls.change_credit(name, usd, kind="grants", terms=terms))

    async def adjust(self, name: str, usd: Decimal, *, note: str) -> AccountBalance:
        """Correct credit by an amount of either sign."""
        return await self._send(calls.change_credit(name, usd, kind="adjustments", terms={"note": note}))

    async def retain(self, name: str, **days: Unpack[RetentionDays]) -> None:
        """Keep contents for fewer days than by default; None: as by default."""
        changed = {to_camel(kind): value for kind, value in days.items()}
        await self._send(calls.change_account(name, {"retention": changed}))

    async def rename(self, name: str, new_name: str) -> None:
        """Give an account another name."""
        await self._send(calls.change_account(name, {"name": new_name}))

    async def suspend(self, name: str, *, stop_runs: bool = False) -> None:
        """Refuse the keys of an account; `stop_runs` also cancels its runs."""
        await self._send(calls.change_account(name, {"suspended": True, "stopRuns": stop_runs}))

    async def resume(self, name: str) -> None:
        """Accept the keys of a suspended account again."""
        await self._send(calls.change_account(name, {"suspended": False}))

    async def create_key(self, account: str, scopes: Sequence[str], **options: Unpack[KeyOptions]) -> ApiKey:
        """Create a key, which has at most the rights of the client's; its `key` is shown only here."""
        return await self._send(calls.create_key(account, scopes, options))

    def keys(self, account: str) -> AsyncIterator[ApiKey]:
        """The keys of an account, newest first."""
        return each_async(self._send, partial(calls.list_keys, account))

    async def rotate_key(self, key_id: str, *, overlap_s: int = DEFAULT_OVERLAP_S) -> ApiKey:
        """Create a key with the same rights; the old one ends after the overlap."""
        return await self._send(calls.rotate_key(key_id, overlap_s))

    async def revoke_key(self, key_id: str, *, stop_runs: bool = False) -> None:
        """Revoke a key; `stop_runs` also cancels its runs."""
        await self._send(calls.revoke_key(key_id, stop_runs=stop_runs))

    def audit(self, **filters: Unpack[AuditFilters]) -> AsyncIterator[AuditEntry]:
        """What was done to accounts, keys and credit, newest first."""
        return each_async(self._send, partial(calls.list_audit, filters))
