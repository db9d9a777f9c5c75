"""How many processors there are, and how many are used."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from app.executors.claude_agent.launching.processors import ProcessorUse, _quota, available_processors


def test_there_are_as_many_as_the_process_may_run_on() -> None:
    assert 0 < available_processors() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("limit", "processors"), [("150000 100000\n", 1.5), ("max 100000\n", float("inf")), (None, float("inf"))]
)
def test_a_control_group_limits_them(tmp_path: Path, limit: str | None, processors: float) -> None:
    own = tmp_path / "own"
    own.write_text("0::/a/b\n")
    group = tmp_path / "groups" / "a" / "b"
    group.mkdir(parents=True)
    if limit is not None:
        (group / "cpu.max").write_text(limit)

    assert _quota(own, tmp_path / "groups") == processors
    assert _quota(tmp_path / "missing", tmp_path / "groups") == float("inf")


def test_what_this_process_uses_counts() -> None:
    use = ProcessorUse(lambda: ())
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass

    assert use.since_last() > 0


async def test_so_does_what_the_clis_use_also_once_they_have_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    cli = await asyncio.create_subprocess_exec("python3", "-c", burn, stdin=-1, stdout=-1)
    running, ended = (ProcessorUse(lambda: [cli.pid]) for _ in range(2))
    assert cli.stdout is not None
    await cli.stdout.readline()
    assert running.since_last() > 0
    await cli.communicate(b"\n")
    # It is no running process any more, but a child that was waited for.
    assert ended.since_last() > 0
