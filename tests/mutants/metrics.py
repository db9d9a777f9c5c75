"""Faults planted in the metrics."""

from tests.mutants.mutant import Mutant

_SCRAPES = ("tests/integration/test_metrics.py",)
_EXPOSITION = ("tests/unit/platform/metrics/test_exposition.py",)
_DELIVERY = "app/billing/receipts/delivery.py"

METRICS = (
    Mutant(
        "a part that fails unexpectedly is shown as it was",
        "app/platform/metrics/readings.py",
        "except Exception as error:",
        "except ZeroDivisionError as error:",
        _EXPOSITION,
    ),
    Mutant(
        "a reading that is late is begun again by every scrape",
        "app/platform/metrics/readings.py",
        "if self._task is None and now >= self._next_at:",
        "if now >= self._next_at:",
        _EXPOSITION,
    ),
    Mutant(
        "a scrape waits as long as the database",
        "app/platform/metrics/readings.py",
        "timeout=max(0.0, self._late_at - now)",
        "timeout=None",
        _SCRAPES,
    ),
    Mutant(
        "every scrape waits for a reading that is late",
        "app/platform/metrics/readings.py",
        "timeout=max(0.0, self._late_at - now)",
        "timeout=self._timeout_s",
        _EXPOSITION,
    ),
    Mutant(
        "a label has any name that arrives",
        "app/platform/metrics/labels.py",
        "return known if known in self.names else OTHER",
        "return known",
        _EXPOSITION,
    ),
    Mutant(
        "servers of one process share their metrics",
        "app/platform/metrics/receipts.py",
        '"Messages of which a part has no known price.", registry=registry',
        '"Messages of which a part has no known price."',
        _EXPOSITION,
    ),
    Mutant(
        "receipts that the end of a run has stored are not counted",
        _DELIVERY,
        "if not each.is_fenced} | inserted.charged",
        "if each.is_fenced} | inserted.charged",
        ("tests/integration/test_receipt_metrics.py",),
    ),
    Mutant(
        "receipts that another process has stored are counted again",
        _DELIVERY,
        "self._count(stored)",
        "self._count(batch)",
        ("tests/integration/test_receipt_metrics.py",),
    ),
    Mutant(
        "the metrics port serves the whole path tree",
        "app/http/api/metrics/port.py",
        'if scope["path"] != PATH:',
        'if not scope["path"].startswith(PATH):',
        _SCRAPES,
    ),
    Mutant(
        "a key for anything may read metrics",
        "app/requests/principal.py",
        'scope == "metrics:read" and "admin" in self.scopes',
        'scope == "metrics:read"',
        _SCRAPES,
    ),
    Mutant(
        "rate limits stay used up after they were reset",
        "app/platform/metrics/rate_limits.py",
        "each.limit if now >= each.resets_at else each.remaining",
        "each.remaining",
        ("tests/unit/platform/metrics/test_rate_limits.py",),
    ),
    Mutant(
        "a refused receipt is not one that waits",
        "app/billing/receipts/queue.py",
        "self._waiting_since.setdefault(fact.key, time.monotonic())",
        "self._waiting_since[fact.key] = time.monotonic()",
        ("tests/unit/billing/receipts/test_queue.py",),
    ),
    Mutant(
        "text of a subagent is the first text",
        "app/platform/metrics/runs.py",
        "if isinstance(event, TextDelta) and event.parent_tool_call_id is None:",
        "if isinstance(event, TextDelta):",
        ("tests/unit/runs/events/test_timing.py",),
    ),
)
