"""AppliedCommands: remembers answers, so that a command which is sent again is not applied again."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from app.executors.inbox import RETRY_AFTER_S, MessageQueueFull
from app.ids import RunKey
from app.runs.commands.answers import Answer

KEPT_S = 15.0
"""Longer than a command is sent again and again."""
MOST_PER_RUN = 10_000
"""Commands to one run within `KEPT_S`; each takes about 1 KB."""


@dataclass(frozen=True, slots=True)
class AppliedCommands:
    """The latest commands from other processes to the runs of this one; also of runs that have ended."""

    kept_s: float = KEPT_S
    most_per_run: int = MOST_PER_RUN
    elapsed_s: Callable[[], float] = time.monotonic
    _tasks: dict[tuple[RunKey, UUID], asyncio.Task[Answer]] = field(default_factory=dict, init=False)
    _oldest: deque[tuple[float, RunKey, UUID]] = field(default_factory=deque, init=False)
    _of_run: Counter[RunKey] = field(default_factory=Counter, init=False)

    def __len__(self) -> int:
        return len(self._tasks)

    async def answer(
        self,
        run: RunKey,
        command_id: UUID,
        apply: Callable[[], Coroutine[Any, Any, Answer]],
        *,
        within_s: float,
    ) -> Answer:
        """The answer to a command, which is applied unless it has been; `pending` after `within_s`.

        A command that was not applied is forgotten. Raises `MessageQueueFull`.
        """
        self._forget_old()
        key = (run, command_id)
        if (task := self._tasks.get(key)) is None:
            if self._of_run[run] >= self.most_per_run:
                raise MessageQueueFull(retry_after_s=RETRY_AFTER_S)
            task = self._tasks[key] = asyncio.create_task(apply())
            self._of_run[run] += 1
            self._oldest.append((self.elapsed_s() + self.kept_s, run, command_id))
        done, _ = await asyncio.wait({task}, timeout=within_s)
        if not done:
            return Answer(not_applied="pending")
        answer = task.result()
        if answer.not_applied is not None:
            self._forget(run, command_id)
        return answer

    async def aclose(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget_old(self) -> None:
        now = self.elapsed_s()
        while self._oldest and self._oldest[0][0] <= now:
            _, run, command_id = self._oldest.popleft()
            if (task := self._tasks.get((run, command_id))) is not None and not task.done():
                self._oldest.append((now + self.kept_s, run, command_id))
            else:
                self._forget(run, command_id)

    def _forget(self, run: RunKey, command_id: UUID) -> None:
        if self._tasks.pop((run, command_id), None) is not None:
            self._of_run[run] -= 1
            if not self._of_run[run]:
                del self._of_run[run]
