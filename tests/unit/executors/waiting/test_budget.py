"""Which decisions raise a budget, and what a run's limit is after those that were made."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from app.errors import Invalid
from app.executors.waiting.budget import raised_limit, require_higher
from app.executors.waiting.port import StoredCall
from app.executors.waiting.records import Decision
from app.ids import ApiKeyId, new_uuid

ASKED = {"spentUsd": "2.5", "maxBudgetUsd": "2"}
LIMIT = Decimal(2)


def decided(answer: Any, **fields: Any) -> StoredCall:
    chosen = {"kind": "budget", "resolved_by": "decided", **fields}
    return StoredCall(
        "1", tool_call_id=None, request={}, expires_at=datetime.now(UTC), answer=answer, **chosen
    )


def raising(dollars: str) -> dict[str, Any]:
    return {"decision": "allow", "args": {"maxBudgetUsd": dollars}}


@pytest.mark.parametrize(
    "args", [None, {}, {"maxBudgetUsd": "2.5"}, {"maxBudgetUsd": "-9"}, {"maxBudgetUsd": True}]
)
def test_a_limit_that_does_not_let_the_run_go_on_is_refused(args: dict[str, Any] | None) -> None:
    with pytest.raises(Invalid) as refused:
        require_higher(ASKED, Decision("allow", args))

    assert refused.value.errors[0].field == "args.maxBudgetUsd"


def test_it_is_raised_once_and_not_for_a_conversation() -> None:
    with pytest.raises(Invalid, match="allow or deny"):
        require_higher(ASKED, Decision("allow", {"maxBudgetUsd": "9"}, grant_by=ApiKeyId(new_uuid())))
    require_higher(ASKED, Decision("allow", {"maxBudgetUsd": "2.6"}))
    require_higher(ASKED, Decision("deny"))


@pytest.mark.parametrize(
    ("waits", "limit"),
    [
        ([], LIMIT),
        ([decided(raising("3")), decided(raising("5"))], Decimal(5)),
        ([decided({"decision": "deny"})], LIMIT),
        # The next attempt publishes the decision, and takes the limit from that.
        ([decided(raising("5"), is_parked=True)], LIMIT),
        ([decided(None, resolved_by="expired")], LIMIT),
        ([decided(raising("5"), kind="permission")], LIMIT),
    ],
)
def test_the_limit_is_the_highest_that_was_decided(waits: list[StoredCall], limit: Decimal) -> None:
    assert raised_limit(LIMIT, waits) == limit
