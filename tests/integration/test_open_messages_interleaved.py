"""Whatever happens to two machines and their disks in whatever order, a message is charged once."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.auth.records import KeyRecord
from app.billing.receipts.records import Receipt
from app.ids import RunId, RunKey
from app.platform.db import Database
from app.usage.records import TokenUsage, UsageFact
from tests.factories import a_fact
from tests.integration.lost_machines import Machine, receipts_of

HISTORIES = 30
STEPS = 40
MESSAGES = 3


@dataclass(slots=True)
class History:
    """One run on a machine that is lost or stands still; another machine takes it over."""

    database: Database
    key: KeyRecord
    directory: Path
    chance: random.Random
    run: RunKey
    owner: Machine
    other: Machine
    is_lost: bool = False
    open: dict[str, UsageFact] = field(default_factory=dict)
    """As last reported, until it is recorded."""
    used: dict[str, TokenUsage] = field(default_factory=dict)
    """The most that was reported of each message."""
    void: set[str] = field(default_factory=set)

    async def step(self) -> None:
        """One event."""
        machine = (self.start, self.grow, self.grow, self.complete, self.answer, self.void_prompt)
        both = (self.write_rows, self.write_rows, self.deliver, self.take_over, self.sweep, self.at_once)
        events = [*([] if self.is_lost else machine), *both]
        if self.chance.random() < 1 / STEPS:
            self.is_lost = True
        result = self.chance.choice(events)()
        if result is not None:
            await result

    def report(self, fact: UsageFact) -> None:
        self.used[fact.message_id] = fact.usage

    def start(self) -> None:
        number = len(self.used)
        if number < MESSAGES:
            prompt = a_fact(self.key, f"unanswered-{number}", self.run.run_id, usage=TokenUsage(50))
            self.owner.queue.start_message(prompt)
            self.open[prompt.message_id] = prompt
            self.report(prompt)

    def chosen(self, *, prompt: bool) -> UsageFact | None:
        """A message in progress, or a prompt without an answer."""
        found = [each for each in self.open.values() if each.message_id.startswith("unanswered") == prompt]
        return self.chance.choice(found) if found else None

    def answer(self) -> None:
        if (prompt := self.chosen(prompt=True)) is None:
            return
        answer = a_fact(self.key, f"msg_{len(self.used)}", self.run.run_id, usage=TokenUsage(40, 1))
        self.owner.queue.start_message(answer, prompt)
        del self.open[prompt.message_id]
        self.void.add(prompt.message_id)
        self.open[answer.message_id] = answer
        self.report(answer)

    def void_prompt(self) -> None:
        if (prompt := self.chosen(prompt=True)) is not None:
            self.owner.queue.void_message(prompt)
            del self.open[prompt.message_id]
            self.void.add(prompt.message_id)

    def grow(self) -> None:
        if (message := self.chosen(prompt=False)) is not None:
            more = replace(message.usage, output_tokens=message.usage.output_tokens + 16)
            grown = self.open[message.message_id] = replace(message, usage=more)
            self.owner.queue.update_message(grown)
            self.report(grown)

    def complete(self) -> None:
        if (message := self.chosen(prompt=False)) is not None:
            del self.open[message.message_id]
            self.owner.queue.complete_message(message)
            if self.chance.random() < 0.7:
                self.owner.queue.record(replace(message, origin=self.chance.choice(["assistant", "hidden"])))

    async def write_rows(self) -> None:
        if not self.is_lost:
            await self.owner.write_rows()

    async def deliver(self) -> None:
        await (self.other if self.is_lost else self.owner).deliver()

    async def take_over(self) -> None:
        await self.other.take_over(self.run)

    async def sweep(self) -> None:
        await self.other.sweep()

    async def at_once(self) -> None:
        """Both machines write to the database at once."""
        await asyncio.gather(self.write_rows(), self.deliver(), self.take_over())

    async def end(self) -> None:
        """The owner ends its run, or is lost; in the end its disk returns."""
        if not self.is_lost and self.chance.random() < 0.5:
            await self.owner.queue.flush(self.run, within_s=0)
            await self.owner.deliver()
        await self.take_over()
        self.owner.journal.close()
        returned = Machine.on(self.database, self.directory / "owner")
        await returned.recover()
        for machine in (self.other, returned):
            await machine.sweep()
            await machine.rows.write()
            machine.journal.close()


@asynccontextmanager
async def a_history(database: Database, key: KeyRecord, path: Path, seed: int) -> AsyncIterator[History]:
    chance, directory = random.Random(seed), path / str(seed)  # noqa: S311 - nothing secret
    yield History(
        database,
        key,
        directory,
        chance,
        RunKey(key.account_id, RunId(f"run-{seed}")),
        Machine.on(database, directory / "owner"),
        Machine.on(database, directory / "other"),
    )


async def test_each_message_is_charged_for_the_most_that_was_reported(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    for seed in range(HISTORIES):
        async with a_history(database, key, tmp_path, seed) as history:
            for _ in range(STEPS):
                await history.step()
            await history.end()

        charged = await receipts_of(database, history.run)
        expected = {name: used for name, used in history.used.items() if name not in history.void}
        assert used_by(charged, without=history.void) == expected, seed
        assert credits_of(charged, of=history.void) == 0, seed
    async with database.read() as reader:
        left = await reader.exec_driver_sql("SELECT count(*) FROM open_messages")
        assert left.scalar_one() == 0


def name_of(receipt: Receipt) -> str:
    return receipt.usage_unit_id.partition("~")[0]


def used_by(receipts: Sequence[Receipt], *, without: set[str]) -> dict[str, TokenUsage]:
    """Input and output of each message, summed over its receipts."""
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for receipt in receipts:
        if name_of(receipt) not in without:
            sums[name_of(receipt)][0] += receipt.input_tokens
            sums[name_of(receipt)][1] += receipt.output_tokens
    return {name: TokenUsage(*tokens) for name, tokens in sums.items()}


def credits_of(receipts: Sequence[Receipt], *, of: set[str]) -> int:
    return sum(receipt.charged_credits for receipt in receipts if name_of(receipt) in of)
