"""SQL for logins of devices."""

from dataclasses import fields
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.sql.elements import ColumnElement

from app.auth.device_logins.records import POLL_INTERVAL, DeviceLogin, RequestedLogin
from app.auth.device_logins.tables import device_logins
from app.ids import ApiKeyId
from app.platform.db import Reader, Transaction
from app.platform.postgres.statements import locked_in_order

_logins = device_logins.c

_EARLY: Final = timedelta(seconds=1)
"""How much earlier than the interval a device may ask: the network delays one request more than the next."""
REPEATED: Final = timedelta(minutes=1)
"""How long the last refresh token but one is answered like the last: its answer may have been lost."""


_REQUESTED = select(*(_logins[field.name] for field in fields(RequestedLogin)))
_LOGIN = select(
    *(_logins[field.name] for field in fields(DeviceLogin) if field.name in _logins),
    (_logins.expires_at <= func.now()).label("is_expired"),
    func.coalesce(_logins.polled_at > func.now() - (POLL_INTERVAL - _EARLY), False).label("is_early"),
    func.coalesce(_logins.refreshed_at > func.now() - REPEATED, False).label("is_repeatable"),
).with_for_update()


def _is_pending(user_code: str) -> tuple[ColumnElement[bool], ...]:
    return (
        _logins.user_code == user_code,
        _logins.expires_at > func.now(),
        _logins.api_key_id.is_(None),
        ~_logins.is_denied,
    )


async def insert_login(tx: Transaction, *, lifetime: timedelta, **values: Any) -> None:
    """Insert a login that waits for a person, and delete those that are over."""
    await tx.execute(
        delete(device_logins).where(locked_in_order(device_logins, _logins.expires_at <= func.now()))
    )
    await tx.execute(insert(device_logins).values(expires_at=func.now() + lifetime, **values))


async def find_requested(reader: Reader, user_code: str) -> RequestedLogin | None:
    """The login with this code, if it waits for a person."""
    row = (await reader.execute(_REQUESTED.where(*_is_pending(user_code)))).mappings().one_or_none()
    return None if row is None else RequestedLogin(**row)


async def decide(tx: Transaction, user_code: str, **values: Any) -> bool:
    """Store what a person has decided; False if the login does not wait for it."""
    decided = update(device_logins).where(*_is_pending(user_code)).values(**values)
    return (await tx.execute(decided.returning(_logins.user_code))).one_or_none() is not None


async def is_of_login(reader: Reader, key_id: ApiKeyId) -> bool:
    found = await reader.execute(select(_logins.device_hash).where(_logins.api_key_id == key_id))
    return found.one_or_none() is not None


async def lock_login(tx: Transaction, device_hash: bytes) -> DeviceLogin | None:
    """A login, which nothing else changes until the transaction ends."""
    row = (await tx.execute(_LOGIN.where(_logins.device_hash == device_hash))).mappings().one_or_none()
    return None if row is None else DeviceLogin(**row)


async def note_poll(tx: Transaction, device_hash: bytes) -> None:
    """Note that the device has asked now."""
    await _update(tx, device_hash, polled_at=func.now())


async def store_first_token(tx: Transaction, device_hash: bytes, refresh_hash: bytes) -> None:
    """Store the refresh token with which a login begins."""
    await _update(tx, device_hash, refresh_hash=refresh_hash)


async def replace_token(tx: Transaction, device_hash: bytes, *, used: bytes, following: bytes) -> None:
    await _update(tx, device_hash, refresh_hash=following, previous_hash=used, refreshed_at=func.now())


async def _update(tx: Transaction, device_hash: bytes, **values: Any) -> None:
    await tx.execute(update(device_logins).where(_logins.device_hash == device_hash).values(**values))
