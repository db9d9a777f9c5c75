"""Hashes in place of end users, for those who erase them, in their transactions."""

from app.billing.pseudonyms.repository import delete_salt, find_hash, replace_end_user
from app.ids import AccountId
from app.platform.db import Transaction


async def hash_of(tx: Transaction, account_id: AccountId, end_user: str) -> str:
    return await find_hash(tx, account_id, end_user)


async def erase_from_receipts(tx: Transaction, account_id: AccountId, end_user: str, *, most: int) -> int:
    """Replace an end user by its hash on some receipts and in their sums; returns on how many."""
    return await replace_end_user(tx, account_id, end_user, most=most)


async def forget(tx: Transaction, account_id: AccountId, end_user: str) -> str | None:
    """Delete what ties an end user to its hash; returns it, None if a receipt still names it."""
    return await delete_salt(tx, account_id, end_user)
