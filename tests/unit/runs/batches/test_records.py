from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from app.ids import AccountId, ApiKeyId
from app.runs.batches.records import Batch, BatchStatus, may_start, run_id_of

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
BATCH = Batch(
    id=UUID(int=1),
    account_id=AccountId(UUID(int=2)),
    api_key_id=ApiKeyId(UUID(int=3)),
    graph_id="messages:assistant",
    request_hash=b"",
    parallelism=8,
    max_usd=None,
    items=10,
    pending=4,
    succeeded=1,
    failed=1,
    cancelled=1,
    refused=1,
    cost_usd=Decimal(0),
    stop_reason=None,
    created_at=NOON,
    ended_at=None,
    step=1,
)


@pytest.mark.parametrize(
    ("reason", "ended", "status"),
    [
        (None, False, "running"),
        ("max_usd", False, "stopping"),
        (None, True, "completed"),
        ("max_usd", True, "stopped"),
        ("insufficient_credits", True, "stopped"),
        ("cancelled", True, "cancelled"),
    ],
)
def test_the_status_follows_from_why_it_stops(reason: str | None, ended: bool, status: BatchStatus) -> None:  # noqa: FBT001
    batch = replace(BATCH, stop_reason=reason, ended_at=NOON if ended else None)

    assert batch.status == status
    assert batch.started == 2


@pytest.mark.parametrize(
    ("limit", "committed", "reserve", "is_alone", "may"),
    [
        (None, "99", "99", False, True),
        ("1", "0.5", "0.5", False, True),
        ("1", "0.5", "0.6", False, False),
        # The bound of one message may be far above what it costs.
        ("1", "0.5", "0.6", True, True),
        ("1", "0", "7", True, True),
        ("1", "1", "0.1", True, False),
    ],
)
def test_an_item_starts_if_the_limit_covers_it_or_if_it_is_alone(
    limit: str | None,
    committed: str,
    reserve: str,
    is_alone: bool,  # noqa: FBT001
    may: bool,  # noqa: FBT001
) -> None:
    max_usd = None if limit is None else Decimal(limit)

    assert may_start(max_usd, Decimal(committed), Decimal(reserve), is_alone=is_alone) is may


def test_the_run_of_an_item_is_always_the_same() -> None:
    ids = {run_id_of(UUID(int=1), 1), run_id_of(UUID(int=1), 1), run_id_of(UUID(int=1), 2)}

    assert len(ids) == 2
