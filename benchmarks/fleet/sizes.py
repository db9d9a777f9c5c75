"""How much is measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    runs: int = 1000
    """At the same time; the fleet has as many places, and so has the single process."""
    workers: int = 4
    starts: int = 500
    per_s: int = 50
    commands: int = 200
    streams: int = 20
    words: int = 100
    resumable: int = 40
    backlog: int = 10_000
    singles: int = 20
    idle: int = 5000
    quiet_s: float = 30.0
    """For how long transactions are counted."""
    events: int = 60_000
    lease_s: int = 5
    warm_up: int = 16
    """Runs of each process before anything is measured."""


QUICK = Sizes(
    runs=80,
    starts=50,
    commands=20,
    streams=5,
    words=20,
    resumable=8,
    backlog=200,
    singles=5,
    idle=200,
    quiet_s=2.0,
    events=5000,
)
TINY = Sizes(
    runs=18,
    workers=2,
    starts=3,
    commands=2,
    streams=2,
    words=3,
    resumable=6,
    backlog=4,
    singles=1,
    idle=4,
    quiet_s=0.1,
    events=50,
    lease_s=1,
    warm_up=1,
)
