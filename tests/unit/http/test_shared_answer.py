import asyncio

import pytest

from app.http.shared_answer import SharedResult


class Question:
    """Counts how often it is asked; answers when it may."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()

    async def __call__(self) -> int:
        self.asked += 1
        await self.may_answer.wait()
        return self.asked


async def test_all_who_ask_at_once_get_one_answer() -> None:
    question = Question()
    shared = SharedResult(question, kept_s=60)
    asking = [asyncio.create_task(shared.get()) for _ in range(100)]
    await asyncio.sleep(0)
    asking[0].cancel()
    question.may_answer.set()

    assert await asyncio.gather(*asking[1:]) == [1] * 99
    assert await shared.get() == 1
    assert asking[0].cancelled()


async def test_an_old_answer_is_asked_for_again() -> None:
    question = Question()
    question.may_answer.set()
    shared = SharedResult(question, kept_s=0)

    first = await shared.get()
    async with asyncio.timeout(5):
        while await shared.get() == first:
            await asyncio.sleep(0)

    assert question.asked == 2


async def test_what_went_wrong_is_told_and_not_kept_for_long() -> None:
    async def fails() -> None:
        message = "away"
        raise LookupError(message)

    shared = SharedResult(fails, kept_s=0)

    for _ in range(2):
        with pytest.raises(LookupError):
            await shared.get()
