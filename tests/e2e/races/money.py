"""Receipts equal the wire, and every sum equals the receipts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from app.simulator.script import Reply
from app.simulator.server import RecordedMessage
from app.usage.records import TokenUsage
from tests.e2e.races.arena import Arena, rows
from tests.e2e.races.placeholders import is_placeholder, may_hang_up, placeholders_of
from tests.e2e.races.race import Race
from tests.e2e.races.story import Ended
from tests.e2e.the_bill import bill, wire

PAID_S = 3.0
"""Receipts are in the database by then."""


async def paid(race: Race) -> None:
    """Wait until as many receipts have come as messages went, or for as long as they may take."""
    due = len(wire(race.arena.simulator.sent))
    counted = "SELECT 1 FROM charge_receipts WHERE run_id LIKE $1"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PAID_S):
            while len(await rows(race.arena, counted, f"{race.name}-%")) < due:
                await asyncio.sleep(0.05)


def differences(race: Race, runs: Sequence[Ended]) -> Iterator[str]:
    """One receipt for each message, by the run that asked for it, with its own numbers."""
    sent = {message.message_id: message for message in race.arena.simulator.sent}
    owed = wire(sent.values())
    charged = bill(receipt for run in runs for receipt in run.receipts if not is_placeholder(receipt))
    shown = _shown(runs)
    cut = _cut_short(race, runs, sent)
    for name in set(charged) - set(owed):
        yield f"{name} was charged and never sent"
    for name, expected in owed.items():
        if name not in charged:
            # Nobody may have read any more when it came; `placeholders` finds its prompt charged.
            if name in shown or name not in cut:
                yield f"{name} was sent and not charged: {sent[name]}"
        elif charged[name] != expected and not _is_part(charged[name], sent[name], cut=name in cut):
            yield f"{name}: charged {charged[name]}, sent {sent[name]}"
        elif charged[name][2].output_tokens < (words := len(shown.get(name, "").split())):
            yield f"{name}: charged {charged[name]}, and {words} words were shown"
    for run in runs:
        yield from _of_others(race, run)
        yield from placeholders_of(race, run, sent)


def _cut_short(race: Race, runs: Sequence[Ended], sent: Mapping[str, RecordedMessage]) -> set[str]:
    """The messages that may not have been read to their end."""
    hung_up = {run.run_id for run in runs if may_hang_up(race, run)}
    return _of(race, hung_up) | {name for name, message in sent.items() if message.disconnected}


def _shown(runs: Sequence[Ended]) -> dict[str, str]:
    """The text that clients were shown of each message."""
    shown: dict[str, str] = {}
    for run in runs:
        for event in (*run.of("thinking_delta"), *run.of("text_delta")):
            shown[event["messageId"]] = shown.get(event["messageId"], "") + event["delta"]
    return shown


def _of_others(race: Race, run: Ended) -> Iterator[str]:
    charged = {receipt["usageUnitId"] for receipt in run.receipts if not is_placeholder(receipt)}
    for name in charged - _of(race, {run.run_id}):
        yield f"{run.run_id} pays for {name}, another's"
    billing = run.shown["billing"]
    if billing["meters"] and billing["meters"]["gateway"] != billing["receipts"]:
        yield f"{run.run_id}: {billing}"


def _of(race: Race, run_ids: AbstractSet[str]) -> set[str]:
    """The messages the model answered these runs with."""
    answers = [each.answer for each in race.arena.asked if each.run_id in run_ids]
    return {each.message_id for each in answers if isinstance(each, Reply)}


def _is_part(charged: tuple[str, str, TokenUsage], sent: RecordedMessage, *, cut: bool) -> bool:
    """Whether somebody hung up before everything that was sent could be read."""
    model, basis, usage = charged
    start = sent.start_usage
    most = max(start["output_tokens"], len(sent.sent_output.split()))
    return (
        (cut, model, basis) == (True, sent.model, "partial")
        and usage.input_tokens == start["input_tokens"]
        and start["output_tokens"] <= usage.output_tokens <= most
    )


async def sums(arena: Arena) -> AsyncIterator[str]:
    """The sums are equal wherever they are kept."""
    (row,) = await rows(
        arena,
        "SELECT (SELECT coalesce(sum(charged_credits), 0) FROM charge_receipts) AS charged,"
        " (SELECT coalesce(-sum(credits), 0) FROM credit_ledger WHERE kind = 'debit') AS debited,"
        " (SELECT coalesce(sum(spent), 0) FROM credit_accounts) AS spent,"
        " (SELECT coalesce(sum(charged_credits), 0) FROM usage_rollups) AS rolled,"
        " (SELECT coalesce(sum(reserved), 0) FROM credit_accounts) AS reserved",
    )
    if len({row["charged"], row["debited"], row["spent"], row["rolled"]}) > 1 or row["reserved"]:
        yield f"the sums differ: {dict(row)}"
