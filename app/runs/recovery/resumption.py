"""Which runs may begin another attempt."""

from app.conversations.repository import find_conversation
from app.graphs.catalog import GraphCatalog
from app.platform.db import Transaction
from app.runs.records import RunRecord
from app.runs.recovery.repository import count_lost_attempts

MAX_ATTEMPTS = 3
"""Limits how many processes can be crashed by one run; attempts that were handed over do not count."""


async def may_be_resumed(tx: Transaction, run: RunRecord, graphs: GraphCatalog) -> bool:
    """There must be no stop request, and not too many attempts that were lost.

    It was parked and has done nothing since; or its graph has `retry: true` and its conversation holds the
    messages so far.
    """
    if run.interruption is not None or await count_lost_attempts(tx, run.key) + 1 >= MAX_ATTEMPTS:
        return False
    if run.is_parked:
        return True
    spec = graphs.find(run.graph_id)
    if run.state_key is None or spec is None or not spec.retry:
        return False
    return await find_conversation(tx, run.key.account_id, run.state_key) is not None
