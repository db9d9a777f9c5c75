"""Checks whether the hash chains of receipts and ledger are sealed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.billing.chain.sealing import SealStatus, seal_status
from app.billing.chain.sealing_key import SealingKey
from app.doctor.report import Check
from app.platform.db import Database
from app.platform.settings import Settings

_NAME = "chain"
_OF_OTHERS = 0o077


async def check_chain(settings: Settings, database: Database | None) -> Check:
    """Whether roots are signed, and the newest one is no older than it should be."""
    path = settings.sealing_key_file
    if path is None:
        message = "roots of receipts and ledger are not signed: RUNTALLY_SEALING_KEY_FILE is not set"
        return Check(_NAME, "warning", message)
    key = SealingKey.read(path)
    if _open_to_others(path):
        return Check(_NAME, "warning", f"RUNTALLY_SEALING_KEY_FILE: others may read {path}; chmod 600 it")
    if database is None:
        return Check(_NAME, "error", "not checked: it needs the database")
    status = await seal_status(database)
    late = _is_late(status, timedelta(seconds=settings.sealing_interval_s), now=datetime.now(UTC))
    newest = status.newest
    sealed = "no root yet" if newest is None else f"root {newest.number} of {newest.made_at:%Y-%m-%d %H:%M}"
    detail = f"key {key.id}; {sealed} UTC; {status.unsealed} entries are not sealed yet"
    return Check(_NAME, "warning" if late else "ok", detail)


def _open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & _OF_OTHERS)


def _is_late(status: SealStatus, every: timedelta, *, now: datetime) -> bool:
    """Whether no server has sealed new entries for two intervals."""
    return status.newest is not None and status.unsealed > 0 and now - status.newest.made_at > 2 * every
