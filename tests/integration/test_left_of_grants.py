"""What the database says is left of grants agrees with the code that lets them expire."""

import json
import random
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.billing.credit.ledger import CreditLedger
from app.billing.credit.records import GrantTerms
from app.platform.db import Database
from tests.integration.statements import rows
from tests.integration.webhook_seam import charge
from tests.unit.billing.credit.test_grant_rests import Ledger

_LEFT = text("SELECT credit_left(:grant, CAST(:entries AS jsonb))")


def as_json(ledger: Ledger) -> str:
    """The entries of a ledger and its balance now, as the view passes them."""
    now = {"kind": "now", "credits": 0, "balance": ledger.balance}
    return json.dumps([*(entry._asdict() for entry in ledger.entries), now], default=str)


@pytest.mark.parametrize("seed", range(3))
async def test_both_agree_about_any_history(database: Database, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - nothing secret
    ledger, open_grants, ended = Ledger(), list[int](), list[int]()
    async with database.read() as reader:
        for _ in range(60):
            amount = rng.randint(1, 100)
            match rng.randrange(5):
                case 0 | 1:
                    terms: dict[str, Any] = {
                        "days": rng.choice([None, 10, 20, 30]),
                        "priority": rng.choice([None, -1, 1]),
                    }
                    open_grants.append(ledger.grant(amount, **terms))
                case 2:
                    ledger.adjust(rng.choice([-1, 1]) * amount)
                case 3 if open_grants:
                    ended.append(open_grants.pop(rng.randrange(len(open_grants))))
                    ledger.expire(ended[-1])
                case _:
                    ledger.spend(amount)
            given = {"entries": as_json(ledger)}
            found = [
                (await reader.execute(_LEFT, {"grant": grant, **given})).scalar_one() for grant in open_grants
            ]
            assert found == ledger.rests(*open_grants)
        for grant in ended:
            assert (await reader.execute(_LEFT, {"grant": grant, **given})).scalar_one() == 0


async def test_the_view_has_the_terms_of_grants_and_what_is_left_of_them(
    database: Database, key: KeyRecord
) -> None:
    ledger, account = CreditLedger(database), key.account_id
    await ledger.grant(account, 1_000_000, note="for ever")
    await ledger.grant(account, 500_000, note="first", terms=GrantTerms(priority=-1))
    await charge(database, key, "msg_1", credits_=600_000)
    await ledger.adjust(account, 5, note="a correction")

    async with database.transaction() as tx:
        await tx.exec_driver_sql("INSERT INTO billing_readers (role, account_id) SELECT session_user, NULL")
    found = await rows(database, "SELECT note, priority, left_usd FROM billing_ledger ORDER BY id")

    assert [(row.note, row.priority, row.left_usd) for row in found] == [
        ("for ever", 0, Decimal("0.09")),
        ("first", -1, 0),
        (None, None, None),
        ("a correction", None, None),
    ]
