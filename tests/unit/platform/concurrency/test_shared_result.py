import asyncio

import pytest

from app.platform.concurrency.shared_result import SharedResult
from tests.patience import PATIENCE_S


class Question:
    """Counts its calls; returns when it may."""

    def __init__(self) -> None:
        self.calls = 0
        self.may_answer = asyncio.Event()

    async def __call__(self) -> int:
        self.calls += 1
        await self.may_answer.wait()
        return self.calls


async def test_concurrent_callers_share_one_result() -> None:
    question = Question()
    shared = SharedResult(question, max_age_s=60)
    waiting = [asyncio.create_task(shared.get()) for _ in range(100)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    question.may_answer.set()

    assert await asyncio.gather(*waiting[1:]) == [1] * 99
    assert await shared.get() == 1
    assert waiting[0].cancelled()


async def test_an_expired_result_is_computed_again() -> None:
    question = Question()
    question.may_answer.set()
    shared = SharedResult(question, max_age_s=0)

    first = await shared.get()
    async with asyncio.timeout(PATIENCE_S):
        while await shared.get() == first:
            await asyncio.sleep(0)

    assert question.calls == 2


async def test_an_error_is_raised_and_expires_like_a_result() -> None:
    async def fails() -> None:
        message = "away"
        raise LookupError(message)

    shared = SharedResult(fails, max_age_s=0)

    for _ in range(2):
        with pytest.raises(LookupError):
            await shared.get()
