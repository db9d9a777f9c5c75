"""Which runs may begin another attempt."""

from app.conversations.repository import find_conversation
from app.graphs.catalog import GraphCatalog
from app.platform.db import Transaction
from app.runs.records import RunRecord
from app.runs.recovery.repository import count_lost_attempts

MAX_ATTEMPTS = 3
"""Limits how many processes can be crashed by one run; attempts that were handed over do not count."""


async def may_be_resumed(tx: Transaction, run: RunRecord, graphs: GraphCatalog) -> bool:
    """Its graph must have `retry: true`, its conversation must hold the messages so far.

    And there must be no stop request.
    """
    if run.state_key is None or run.interruption is not None:
        return False
    spec = graphs.find(run.graph_id)
    if spec is None or not spec.retry:
        return False
    if await count_lost_attempts(tx, run.key) + 1 >= MAX_ATTEMPTS:
        return False
    return await find_conversation(tx, run.key.account_id, run.state_key) is not None
