"""When a process of `runtally serve --processes` that has ended is started again."""

from itertools import accumulate

from app.cli.processes.supervisor import next_pause_s


def test_what_ends_soon_is_started_again_later_and_later_also_if_it_has_served() -> None:
    served_s = [None, 0.0, 29.9, None, 0.1, None, 1.0, None]

    assert list(accumulate(served_s, next_pause_s, initial=0.0))[1:] == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_what_has_lasted_is_started_again_at_once() -> None:
    assert next_pause_s(16, 30.0) == 0.5
