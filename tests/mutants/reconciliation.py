"""Faults of the comparison with the provider's reports."""

from tests.mutants.mutant import Mutant

_RECONCILIATION = "app/billing/reconciliation"
_UNIT = ("tests/unit/billing/reconciliation",)
_JOB = ("tests/integration/test_reconciliation_job.py",)
_BOOKS = ("tests/integration/test_reconciliation.py",)

RECONCILIATION = (
    Mutant(
        "hours before the latest comparison are never caught up on",
        f"{_RECONCILIATION}/schedule.py",
        "start = max(start, floor_to(window.end, HOUR))",
        "start = max(each.end for each in (*compared, window))",
    ),
    Mutant(
        "a day that cannot be compared is tried first for ever",
        f"{_RECONCILIATION}/schedule.py",
        "history.failures.get(part.start, datetime.min.replace(tzinfo=part.start.tzinfo))",
        "datetime.min.replace(tzinfo=part.start.tzinfo)",
    ),
    Mutant(
        "hours count as compared before they have ended",
        f"{_RECONCILIATION}/repository.py",
        "\n           AND window_end <= started_at",
        "",
        _JOB,
    ),
    Mutant(
        "a comparison without its claim is stored",
        f"{_RECONCILIATION}/repository.py",
        "if ended.rowcount != 1:",
        "if False:",
        _JOB,
    ),
    Mutant(
        "keys that look alike are all ours",
        f"{_RECONCILIATION}/service.py",
        "if len(found) != 1:",
        "if not found:",
        _JOB,
    ),
    Mutant(
        "the usage of other programs is compared with receipts",
        f"{_RECONCILIATION}/records.py",
        "return [row for row in self.reported if row.api_key_id in self.own_keys]",
        "return list(self.reported)",
        _BOOKS,
    ),
    Mutant(
        "every message without a receipt is a lost one",
        f"{_RECONCILIATION}/comparing/causes.py",
        'return "lost_receipt" if evidence.calls > evidence.receipts else "unknown_caller"',
        'return "lost_receipt"',
        _BOOKS,
    ),
    Mutant(
        "an estimated output explains other kinds",
        f"{_RECONCILIATION}/comparing/causes.py",
        "if any(others):",
        "if False:",
        _BOOKS,
    ),
    Mutant(
        "a price differs in the hour in which it changes",
        f"{_RECONCILIATION}/comparing/price_audit.py",
        "for at in (cost.at, cost.ends_at)]",
        "for at in (cost.at,)]",
        _BOOKS,
    ),
    Mutant(
        "a new kind of token is left out",
        f"{_RECONCILIATION}/provider/mapper.py",
        'raise ReportUnreadable("token_type")',
        "return None",
        _UNIT,
    ),
    Mutant(
        "only the first page of a report is read",
        f"{_RECONCILIATION}/provider/reports.py",
        'if page.get("has_more") is False:',
        "if page:",
        _JOB,
    ),
    Mutant(
        "without the provider's costs, wrong prices are forgotten",
        f"{_RECONCILIATION}/comparing/summary.py",
        "if result.prices_audited:",
        "if result.window:",
        _BOOKS,
    ),
    Mutant(
        "a known difference raises an alarm each hour",
        f"{_RECONCILIATION}/comparing/summary.py",
        "if not each.is_explained and each.identity not in seen:",
        "if not each.is_explained:",
        _JOB,
    ),
    Mutant(
        "an advisor has the speed of the model that was asked",
        f"{_RECONCILIATION}/comparing/receipt_parts.py",
        "speed=None if part.name == ADVISOR else receipt.speed",
        "speed=receipt.speed",
        _BOOKS,
    ),
    Mutant(
        "calls are forgotten while the database is unavailable",
        f"{_RECONCILIATION}/calls/counter.py",
        "            self._sent.update(sent)\n",
        "",
        _JOB,
    ),
)
