"""The listening socket of `runtally serve --processes`: each process accepts as many connections."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest

from app.cli.addresses import listen
from app.cli.processes.listener import PATIENCE_S as TURN_S
from app.cli.processes.listener import SharedListener, accepted_file, withdraw
from tests.patience import PATIENCE_S

Started: TypeAlias = Callable[[int], SharedListener]


@pytest.fixture
def accepted(tmp_path: Path) -> Iterator[int]:
    """The descriptor of the file that all processes have."""
    with accepted_file(str(tmp_path)) as descriptor:
        yield descriptor


@pytest.fixture
def started(accepted: int) -> Iterator[Started]:
    """Starts the process of a number; many connections wait for them."""
    with ExitStack() as stack:
        bound = stack.enter_context(listen("127.0.0.1", 0))

        def start(number: int) -> SharedListener:
            listener = SharedListener(os.dup(bound.fileno()), os.dup(accepted), number)
            listener.listen(16)
            return stack.enter_context(listener)

        for _ in range(16):
            stack.enter_context(socket.create_connection(bound.getsockname(), timeout=PATIENCE_S))
        yield start


def accepts(listener: SharedListener) -> bool:
    try:
        connection, _ = listener.accept()
    except BlockingIOError:
        return False
    connection.close()
    return True


def test_processes_accept_in_turn(started: Started) -> None:
    first, second, third = map(started, (1, 2, 3))

    assert [accepts(first), accepts(first)] == [True, False]
    assert [accepts(third), accepts(third)] == [True, False]
    assert [accepts(second), accepts(second)] == [True, True]
    assert [accepts(second), accepts(first), accepts(third)] == [False, True, True]


def test_one_that_does_not_accept_is_not_waited_for_long(started: Started) -> None:
    first, _busy = started(1), started(2)

    hangs_at = time.monotonic() + PATIENCE_S
    for _ in range(3):
        while not accepts(first):
            assert time.monotonic() < hangs_at


def test_a_connection_after_a_pause_is_accepted_in_turn_as_well(started: Started) -> None:
    first, second = started(1), started(2)
    while accepts(first) or accepts(second):
        pass
    with socket.create_connection(first.getsockname(), timeout=PATIENCE_S):
        ahead, behind = (first, second) if accepts(first) else (second, first)
        assert ahead is first or accepts(second)
        assert not accepts(ahead)
        paused_since = time.monotonic()
        while time.monotonic() - paused_since < TURN_S:
            pass
        with socket.create_connection(first.getsockname(), timeout=PATIENCE_S):
            assert [accepts(ahead), accepts(behind)] == [False, True]


def test_one_that_has_stopped_is_not_waited_for(started: Started) -> None:
    first, second = started(1), started(2)
    second.close()

    assert [accepts(first) for _ in range(4)] == [True] * 4


def test_one_that_was_killed_is_not_waited_for(started: Started, accepted: int) -> None:
    first, _killed = started(1), started(2)

    assert [accepts(first), accepts(first)] == [True, False]
    withdraw(accepted, 2)
    assert [accepts(first), accepts(first)] == [True, True]


def test_one_that_has_started_again_gets_no_more_than_the_others(started: Started) -> None:
    first, second = started(1), started(2)
    second.close()
    taken = [accepts(first) for _ in range(4)]
    second = started(2)

    assert taken == [True] * 4
    assert [accepts(second), accepts(second), accepts(first)] == [True, False, True]


def test_nothing_is_accepted_when_nothing_waits(started: Started) -> None:
    alone = started(1)

    assert [accepts(alone) for _ in range(17)] == [*[True] * 16, False]
