"""Faults planted in the delivery and the journal of receipts, and in the estimate of what has arrived."""

from tests.mutants.mutant import Mutant

DELIVERY = ("tests/integration/test_receipt_delivery.py",)
OPEN_MESSAGES = ("tests/integration/test_open_message_rows.py", "tests/integration/test_lost_machines.py")
CUT_SHORT = ("tests/integration/test_gateway_cut_short.py",)

RECEIPTS = (
    Mutant(
        "a second correction takes back what was taken back before",
        "app/billing/receipts/records.py",
        "if (opposite := _taken_back(line)) in changes:",
        "if (opposite := _taken_back(line)) in changes[len(before) :]:",
    ),
    Mutant(
        "the CLI's total is compared with itself",
        "app/executors/claude_agent/meters/cli_costs.py",
        "drift = self._counted - cli",
        "drift = cli - cli",
    ),
    Mutant(
        "an advisor's calls are charged twice with a local login",
        "app/executors/claude_agent/meters/sdk_meter.py",
        "for advisor, usage in advisor_usage(message.reported):",
        "for advisor, usage in advisor_usage({}):",
    ),
    Mutant(
        "a receipt that the database cannot take now is set aside",
        "app/billing/receipts/delivery.py",
        "            if error.by_values:\n                raise\n",
        "            if True:\n                raise\n",
        DELIVERY,
    ),
    Mutant(
        "refused receipts are never tried again",
        "app/billing/receipts/delivery.py",
        "self.queue.retry_refused()",
        "pass",
        DELIVERY,
    ),
    Mutant(
        "refused receipts do not count against the credit",
        "app/billing/receipts/queue.py",
        "self._refused_credits[refused.fact.run.account_id] += refused.receipt.charged_credits",
        "pass",
    ),
    Mutant(
        "a refused receipt keeps all segments of the journal",
        "app/billing/receipts/queue.py",
        "        self._journal.complete_message(refused.fact)\n",
        "",
        DELIVERY,
    ),
    Mutant(
        "a read-only database is a wrong statement",
        "app/platform/db.py",
        "(writes and sqlstate_of(error) == READ_ONLY)",
        "False",
        ("tests/integration/test_database.py",),
    ),
    Mutant(
        "a connection that was idle is closed",
        "app/platform/db.py",
        "            dialect.do_ping(connection)\n",
        "            raise InvalidatePoolError\n",
        ("tests/integration/test_database.py",),
    ),
    Mutant(
        "a connection that was lost while it was idle is used",
        "app/platform/db.py",
        "                raise InvalidatePoolError from error\n",
        "                return\n",
        ("tests/integration/test_database.py",),
    ),
    Mutant(
        "a message whose receipt is stored is in progress again",
        "app/billing/receipts/open_messages/repository.py",
        "LIMIT 1) IS NULL",
        "LIMIT 1) IS NULL OR true",
        OPEN_MESSAGES,
    ),
    Mutant(
        "a row that its process has removed is charged",
        "app/billing/receipts/delivery.py",
        "if not each.from_row or each.fact.key in remaining",
        "if not each.from_row or each.fact.key in rows",
        OPEN_MESSAGES,
    ),
    Mutant(
        "an estimate of a row adds to a receipt",
        "app/billing/receipts/delivery.py",
        "if each.from_row:\n                continue",
        "if False:\n                continue",
        OPEN_MESSAGES,
    ),
    Mutant(
        "what a lost machine had begun is charged after the credit is released",
        "app/runs/closing.py",
        "await recover_receipts(tx, self.receipts, run.key, attempt=run.attempt)",
        "self.receipts.recover()",
        OPEN_MESSAGES,
    ),
    Mutant(
        "a record has one copy",
        "app/billing/receipts/journal_records.py",
        "return line + line",
        "return line",
    ),
    Mutant(
        "one damaged line end joins both copies",
        "app/billing/receipts/journal_records.py",
        'line = b"%08x %s\\n\\n"',
        'line = b"%08x %s\\n"',
    ),
    Mutant(
        "lost records are not counted",
        "app/billing/receipts/journal_records.py",
        "damage.lost += number - self._last - 1",
        "pass",
    ),
    Mutant(
        "a damaged file is deleted",
        "app/billing/receipts/journal.py",
        "if not segment.is_damaged:",
        "if True:",
    ),
    Mutant(
        "a message that grows keeps old segments",
        "app/billing/receipts/journal.py",
        "if fact.key in self._segments[-1].pending and fact == replace(before, usage=usage):",
        "if fact == replace(before, usage=usage):",
    ),
    Mutant(
        "what has arrived is recorded after the agent could read it",
        "app/gateway/exchange.py",
        "        if (grown := fold.grown()) is not None:\n            call.on_progress(grown)\n"
        '        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})\n',
        '        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})\n'
        "        if (grown := fold.grown()) is not None:\n            call.on_progress(grown)\n",
        CUT_SHORT,
    ),
    Mutant(
        "what has arrived is recorded in steps that are rounded down",
        "app/gateway/wire.py",
        "math.ceil(arrived[0] / PROGRESS_TOKENS)",
        "math.floor(arrived[0] / PROGRESS_TOKENS)",
    ),
    Mutant(
        "hidden thinking is nothing",
        "app/gateway/received.py",
        "return max(0, all_tokens - self._in_block.estimate)",
        "return 0",
    ),
    Mutant(
        "searches that were begun and not reported are free",
        "app/billing/prices/usage_reading.py",
        "if usage.web_search_requests > (count_of(tools.get(_SEARCHES)) or 0):",
        "if False:",
    ),
    Mutant(
        "an answer that is not streamed and breaks off costs its prompt only",
        "app/gateway/exchange.py",
        "if not is_whole:",
        "if False:",
        CUT_SHORT,
    ),
)
