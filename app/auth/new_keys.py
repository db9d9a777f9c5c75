"""New API keys: stored with the entry of the audit log that names them."""

from app.auth.records import KeyRecord, NewKey
from app.auth.repository import insert_key
from app.platform.audit.records import Actor, Change
from app.platform.audit.repository import record_change
from app.platform.db import Transaction


async def insert_new_key(
    tx: Transaction, new: NewKey, by: Actor, *, replaces: KeyRecord | None = None
) -> KeyRecord:
    """Store a key unless it exists, and record it: as the rotation of the key that it `replaces`."""
    key, is_new = await insert_key(tx, new)
    after = {"id": str(key.id), **_shown(key)}
    if replaces is not None:
        await record_change(tx, by, Change(key.account_id, "key.rotated", str(replaces.id), after=after))
    elif is_new:
        await record_change(tx, by, Change(key.account_id, "key.created", str(key.id), after=after))
    return key


def _shown(key: KeyRecord) -> dict[str, object]:
    terms = key.terms
    return {
        "name": key.name,
        "scopes": list(key.scopes),
        "expiresAt": None if terms.expires_at is None else terms.expires_at.isoformat(),
        "graphs": terms.graphs,
        "models": terms.models,
        "requestsPerMinute": terms.requests_per_minute,
        "concurrentRuns": terms.concurrent_runs,
        "tokensPerMinute": terms.tokens_per_minute,
        # Without the end user, who may be erased.
        "labels": terms.labels and terms.labels.model_dump(by_alias=True, exclude={"end_user"}),
    }
