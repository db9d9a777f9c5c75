"""The books of a server compared with what its model sent."""

from collections import Counter
from collections.abc import Iterable

import asyncpg

from app.simulator.server import RecordedMessage


async def differences(database: asyncpg.Connection, sent: Iterable[RecordedMessage]) -> list[str]:
    """Messages without their one receipt, other numbers than were sent, sums that differ.

    A message that was cut off is charged for as much of it as arrived.
    """
    rows = await database.fetch("SELECT * FROM charge_receipts")
    known = {message.message_id: message for message in sent if message.first_byte_at is not None}
    charged = Counter(row["usage_unit_id"] for row in rows)
    wrong = [f"{name} has {count} receipts" for name, count in charged.items() if count > 1]
    wrong += [f"{name} has no receipt" for name in known if name not in charged]
    for row in rows:
        message = known.get(row["usage_unit_id"])
        if message is None:
            wrong.append(f"{row['usage_unit_id']} was never sent")
        elif not _is_right(row, message):
            wrong.append(
                f"{message.message_id} is charged as {row['basis']}: {_tokens(row)}, sent: {message}"
            )
    return [*wrong, *await _sums(database, sum(row["charged_credits"] for row in rows))]


def _is_right(row: asyncpg.Record, message: RecordedMessage) -> bool:
    if row["basis"] == "final":
        usage = message.final_usage or {}
        return _tokens(row) == (usage.get("input_tokens"), usage.get("output_tokens"))
    most = max(len(message.sent_output), message.start_usage["output_tokens"])
    return bool(row["input_tokens"] == message.start_usage["input_tokens"] and row["output_tokens"] <= most)


def _tokens(row: asyncpg.Record) -> tuple[int, int]:
    return row["input_tokens"], row["output_tokens"]


async def _sums(database: asyncpg.Connection, charged: int) -> list[str]:
    debited = await database.fetchval("SELECT -sum(credits) FROM credit_ledger WHERE kind = 'debit'")
    spent = await database.fetchval("SELECT sum(spent) FROM credit_accounts")
    rolled = await database.fetchval("SELECT sum(charged_credits) FROM usage_rollups")
    reserved = await database.fetchval("SELECT sum(reserved) FROM credit_accounts")
    wrong = [] if not reserved else [f"{reserved} credits stay reserved"]
    if not charged == debited == spent == rolled:
        wrong.append(f"charged {charged}, debited {debited}, spent {spent}, rolled up {rolled}")
    return wrong
