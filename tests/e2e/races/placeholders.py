"""Receipts for prompts that the provider got and whose answer nobody read: one for each such call."""

from collections.abc import Iterator, Mapping
from typing import Any

from app.simulator.script import Reply
from app.simulator.server import RecordedMessage
from tests.e2e.races.arena import Asked
from tests.e2e.races.programs import Act
from tests.e2e.races.race import Race
from tests.e2e.races.story import Ended


def is_placeholder(receipt: Mapping[str, Any]) -> bool:
    """Whether a receipt is for a prompt without an answer."""
    return str(receipt["usageUnitId"]).startswith("unanswered-")


def may_hang_up(race: Race, run: Ended) -> bool:
    """Whether a run's agent may have been stopped while it waited for the model."""
    urgent = any(
        isinstance(each.act, Act)
        and (each.act.what, each.act.how, each.run_id) == ("send", "now", run.run_id)
        for each in race.answers
    )
    stopped = run.shown["final"]["error"] in {"aborted", "timeout"}
    return urgent or stopped or bool(run.of("interrupted"))


def placeholders_of(race: Race, run: Ended, sent: Mapping[str, RecordedMessage]) -> Iterator[str]:
    """Each call is charged once: by its message, or else, unless it was refused, by a placeholder."""
    found = [receipt for receipt in run.receipts if is_placeholder(receipt)]
    paid = {receipt["usageUnitId"] for receipt in run.receipts}
    unpaid = [asked for asked in race.arena.asked if asked.run_id == run.run_id and not _is_paid(asked, paid)]
    refused = sum(_is_refusal(asked) for asked in unpaid)
    least = len(unpaid) - refused
    # Whoever hangs up before a refusal arrives does not know that it is one.
    most = len(unpaid) if may_hang_up(race, run) else least
    if not least <= len(found) <= most:
        answers = [(asked.answer, _sent(asked, sent)) for asked in unpaid]
        yield f"{run.run_id}: {len(found)} placeholders, {least} to {most} expected for {answers}"
    for receipt in found:
        if (receipt["basis"], receipt["outputTokens"], receipt["outputEstimated"]) != ("partial", 0, True):
            yield f"{run.run_id}: no placeholder is {receipt}"


def _is_paid(asked: Asked, paid: set[str]) -> bool:
    return isinstance(asked.answer, Reply) and asked.answer.message_id in paid


def _is_refusal(asked: Asked) -> bool:
    """Whether the provider answered with an error, in whatever way, and nothing else."""
    match asked.answer:
        case Reply(error_after=(0, _)):
            return True
        case Reply():
            return False
        case _:
            return True


def _sent(asked: Asked, sent: Mapping[str, RecordedMessage]) -> RecordedMessage | None:
    return sent.get(asked.answer.message_id) if isinstance(asked.answer, Reply) else None
