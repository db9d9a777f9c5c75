"""How many commands to a run may wait for an answer."""

import pytest

from app.executors.inbox import MessageLimits, MessageQueueFull
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.runs.commands.waiting import WaitingCommands

RUN = RunKey(AccountId(new_uuid()), RunId("run"))
OTHER = RunKey(AccountId(new_uuid()), RunId("run"))


def test_commands_are_limited_in_number_for_each_run() -> None:
    waiting = WaitingCommands(MessageLimits(count=2, size=100))
    with waiting.one_more(RUN, 1):
        with waiting.one_more(RUN, 1):
            with pytest.raises(MessageQueueFull) as refused, waiting.one_more(RUN, 1):
                pass
            with waiting.one_more(OTHER, 1):
                pass
        with waiting.one_more(RUN, 1):
            pass

    assert refused.value.retry_after_s is not None
    assert waiting._sizes == {}


def test_commands_are_limited_in_size_but_a_single_one_always_waits() -> None:
    waiting = WaitingCommands(MessageLimits(count=10, size=100))
    with waiting.one_more(RUN, 1000), pytest.raises(MessageQueueFull), waiting.one_more(RUN, 1):
        pass
    with (
        waiting.one_more(RUN, 60),
        waiting.one_more(RUN, 40),
        pytest.raises(MessageQueueFull),
        waiting.one_more(RUN, 1),
    ):
        pass


def test_a_command_that_fails_waits_no_longer() -> None:
    waiting = WaitingCommands(MessageLimits(count=1, size=100))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), waiting.one_more(RUN, 1):
            raise ZeroDivisionError
