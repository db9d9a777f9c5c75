"""SQL for browser sessions."""

from collections.abc import Collection
from dataclasses import asdict
from datetime import timedelta

from sqlalchemy import and_, delete, func, null, select
from sqlalchemy.dialects.postgresql import insert

from app.auth.records import BrowserSession, Credential, SignedInPerson
from app.auth.repository import IS_ENDED, TERMS, key_fields
from app.auth.tables import accounts, api_keys, browser_sessions
from app.ids import ApiKeyId
from app.platform.db import Reader, Transaction
from app.platform.postgres.statements import locked_in_order

_IS_USABLE = and_(~IS_ENDED, accounts.c.suspended_at.is_(None))


async def find_valid_credentials(reader: Reader, credentials: Collection[Credential]) -> set[Credential]:
    """The subset of these credentials that is neither revoked nor expired, of accounts not suspended."""
    hashes = [credential.session_hash for credential in credentials if credential.session_hash is not None]
    live = and_(
        browser_sessions.c.api_key_id == api_keys.c.id,
        browser_sessions.c.token_hash.in_(hashes),
        browser_sessions.c.expires_at > func.now(),
    )
    statement = (
        select(api_keys.c.id, browser_sessions.c.token_hash)
        .join_from(api_keys, browser_sessions, live, isouter=True)
        .join(accounts, accounts.c.id == api_keys.c.account_id)
        .where(api_keys.c.id.in_({each.api_key_id for each in credentials}), _IS_USABLE)
    )
    valid = set[Credential]()
    for row in await reader.execute(statement):
        key_id = ApiKeyId(row.id)
        valid |= {Credential(key_id, None), Credential(key_id, row.token_hash)}
    return valid


async def insert_session(
    tx: Transaction,
    token_hash: bytes,
    api_key_id: ApiKeyId,
    *,
    lifetime: timedelta,
    person: SignedInPerson | None = None,
    sign_in: bytes | None = None,
) -> None:
    """Insert a session that begins now, unless there is one of the same `sign_in`."""
    await tx.execute(
        insert(browser_sessions)
        .values(
            token_hash=token_hash,
            api_key_id=api_key_id,
            created_at=func.now(),
            expires_at=func.now() + lifetime,
            person=null() if person is None else asdict(person),
            sign_in=sign_in,
        )
        .on_conflict_do_nothing(index_elements=["sign_in"])
    )


async def find_active_session(reader: Reader, token_hash: bytes) -> BrowserSession | None:
    """The session, unless it or its key has ended, or its account is suspended."""
    found = await reader.execute(
        select(
            api_keys.c.account_id,
            accounts.c.name.label("account"),
            api_keys.c.id.label("api_key_id"),
            api_keys.c.name.label("key_name"),
            api_keys.c.prefix.label("key_prefix"),
            api_keys.c.scopes,
            *TERMS,
            browser_sessions.c.expires_at,
            browser_sessions.c.person,
        )
        .join(api_keys, api_keys.c.id == browser_sessions.c.api_key_id)
        .join(accounts, accounts.c.id == api_keys.c.account_id)
        .where(
            browser_sessions.c.token_hash == token_hash,
            browser_sessions.c.expires_at > func.now(),
            _IS_USABLE,
        )
    )
    row = found.mappings().one_or_none()
    if row is None:
        return None
    person = None if row["person"] is None else SignedInPerson(**row["person"])
    return BrowserSession(**{**key_fields(row), "person": person})


async def delete_session(tx: Transaction, token_hash: bytes) -> None:
    await tx.execute(delete(browser_sessions).where(browser_sessions.c.token_hash == token_hash))


async def delete_expired(tx: Transaction) -> None:
    are_over = locked_in_order(browser_sessions, browser_sessions.c.expires_at <= func.now())
    await tx.execute(delete(browser_sessions).where(are_over))
