"""Faults planted in the gateway, and in what it checks before a call."""

from tests.mutants.mutant import Mutant

UNREADABLE = ("tests/integration/test_gateway_unreadable.py",)

LIMITS = ("tests/integration/test_spending_limits.py",)

JUMPS = ("tests/integration/test_clocks_that_jump.py",)

OUTGOING = ("tests/integration/test_outgoing.py",)

GATEWAY = (
    # Clocks.
    Mutant(
        "a jump of the host is believed",
        "app/platform/clock/clock.py",
        "return host if abs(host - agreed) <= TOLERANCE else agreed",
        "return host",
    ),
    Mutant(
        "of two clocks the later is believed",
        "app/platform/clock/clock.py",
        "(len(readings) - 1) // 2",
        "len(readings) // 2",
    ),
    Mutant(
        "a host that has the database outweighs all others",
        "app/platform/clock/clock.py",
        '"provider": 2}',
        '"provider": 1}',
    ),
    Mutant(
        "a message has the time of the host",
        "app/gateway/call.py",
        "return replace(message, at=self._began_at)",
        "return message",
    ),
    Mutant(
        "the month is that of the host",
        "app/billing/credit/ledger.py",
        "pending=pending, now=self._clock.now()",
        "pending=pending, now=self._clock.host()",
        JUMPS,
    ),
    Mutant(
        "a jump of the database ends runs of living processes",
        "app/runs/recovery/service.py",
        "return self._heartbeat.continuous_s < self._takeover_s",
        "return False",
        JUMPS,
    ),
    Mutant(
        "a run whose last heartbeat is in the future lives for ever",
        "app/runs/recovery/repository.py",
        "and_(workers.c.seen_at > func.now() - term, workers.c.seen_at <= func.now() + term)",
        "workers.c.seen_at > func.now() - term",
        JUMPS,
    ),
    # Messages that are reported twice.
    Mutant(
        "a second report with other numbers is dropped",
        "app/billing/receipts/queue.py",
        "self.charge_excess(fact, charged=known.fact.usage)",
        "pass",
    ),
    Mutant(
        "what a stored message used more is dropped",
        "app/billing/receipts/delivery.py",
        "self.queue.charge_excess(each.fact, charged=charged[each.receipt.source].usage)",
        "pass",
        ("tests/integration/test_receipt_delivery.py",),
    ),
    # Credit and budgets.
    Mutant(
        "no answer about the credit is no limit",
        "app/executors/credit_check.py",
        '            if loop.time() >= needed.deadline:\n                return "database"\n',
        "            if loop.time() >= needed.deadline:\n                return None\n",
    ),
    Mutant(
        "what is reserved may be spent twice without the database",
        "app/executors/credit_check.py",
        "needed.maximum + own <= self._reserved",
        "needed.maximum <= self._reserved",
    ),
    Mutant(
        "a change that was not confirmed did not happen",
        "app/executors/credit_check.py",
        "self._reserved = None if before is None else min(before, maximum)",
        "self._reserved = before",
    ),
    Mutant(
        "what is not delivered is not reserved",
        "app/executors/credit_check.py",
        "maximum, minimum = needed.maximum + pending.own, needed.minimum + pending.own",
        "maximum, minimum = needed.maximum, needed.minimum",
        LIMITS,
    ),
    Mutant(
        "a reservation is no larger than what is left",
        "app/billing/credit/repository.py",
        "SELECT CAST(:requested AS bigint) AS credits",
        "SELECT least(:requested, account.available + own.reserved - :pending) AS credits",
        ("tests/integration/test_ledger.py",),
    ),
    Mutant(
        "a token is two bytes at least",
        "app/gateway/estimate.py",
        "prompt = text_bytes + PROMPT_OVERHEAD",
        "prompt = text_bytes // 2 + PROMPT_OVERHEAD",
    ),
    Mutant(
        "a prompt that is marked for the cache costs as much as any other",
        "app/gateway/estimate.py",
        """if b'"cache_control"' not in body:""",
        "if True:",
    ),
    Mutant(
        "a call is admitted whatever the others may cost",
        "app/gateway/channel.py",
        "spent = spent.plus(call.reserved)",
        "pass",
        LIMITS,
    ),
    Mutant(
        "credit is reserved for the new call only",
        "app/gateway/channel.py",
        "refusal = await self.hooks.check_credit(_whole_cost([*covered, call]))\n        if refusal ==",
        "refusal = await self.hooks.check_credit(_whole_cost([call]))\n        if refusal ==",
    ),
    Mutant(
        "the provider is not asked before a call is refused",
        "app/gateway/channel.py",
        'if refusal == "credit" and await self._tighten([*covered, call]):',
        "if False:",
    ),
    Mutant(
        "the most that a prompt costs is the price of its kind",
        "app/billing/prices/model_price.py",
        "kinds = _MAY_COST_AS.get(kind, (kind,))",
        "kinds = (kind,)",
    ),
    # What cannot be read.
    Mutant(
        "a line that ends with CR waits for the next bytes",
        "app/gateway/event_lines.py",
        r""".replace(b"\r\n", b"\n").replace(b"\r", b"\n")""",
        r""".replace(b"\r\n", b"\n")""",
        ("tests/unit/gateway/test_wire.py",),
    ),
    Mutant(
        "data in several lines is not joined",
        "app/gateway/event_lines.py",
        r"""b"\n".join(data)""",
        "data[0]",
        ("tests/unit/gateway/test_wire.py",),
    ),
    Mutant(
        "a run whose usage cannot be read goes on",
        "app/gateway/call.py",
        "if message.unreadable:",
        "if False:",
        UNREADABLE,
    ),
    Mutant(
        "a run goes on after an answer without a message",
        "app/gateway/call.py",
        'log.error("gateway.response_unparsable", request_id=request_id)\n        self.block("answer")\n',
        'log.error("gateway.response_unparsable", request_id=request_id)\n',
        UNREADABLE,
    ),
    Mutant(
        "an answer that is no message is not noticed",
        "app/gateway/exchange.py",
        "elif message is None and is_whole:",
        "elif message is None and False:",
        UNREADABLE,
    ),
    Mutant(
        "an unknown encoding is passed on",
        "app/gateway/encodings.py",
        "if len(names) > _MOST_LAYERS or not _WINDOW_BITS.keys() >= set(names):\n        return None\n",
        "names = [name for name in names if name in _WINDOW_BITS]\n",
    ),
    Mutant(
        "usage that was not reported is nothing",
        "app/gateway/wire.py",
        "return replace(usage, input_tokens=estimate)",
        "return usage",
    ),
    Mutant(
        "a later lower count replaces a higher one",
        "app/gateway/wire.py",
        "self._raw = highest if self._restarted else merged",
        "self._raw = merged",
    ),
    Mutant(
        "messages without an id share one",
        "app/gateway/call.py",
        'return self.reserve(f"unnamed-{self._unnamed}")',
        'return MessageId("unnamed-1")',
        UNREADABLE,
    ),
    Mutant(
        "a whole response has no limit",
        "app/platform/outgoing.py",
        "        if len(body) > max_bytes:",
        "        if False:",
        OUTGOING,
    ),
    Mutant(
        "a compressed response is read",
        "app/platform/outgoing.py",
        "    if is_compressed(response):",
        "    if False:",
        OUTGOING,
    ),
)
