"""A process of `runtally serve --processes` ends with its supervisor."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

PROCESS = """
import signal, sys
from app.cli.processes.lifeline import held_lifeline
held_lifeline(sys.argv[1]).send(b".")
signal.pause()
"""


@pytest.mark.parametrize("reads", [True, False])
def test_it_ends_and_leaves_nothing_whatever_the_supervisor_has_read(tmp_path: Path, *, reads: bool) -> None:
    directory = tmp_path / "shared"
    directory.mkdir()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-c", PROCESS, str(directory)]
        with subprocess.Popen(command, stdin=theirs.fileno()) as process:
            theirs.close()
            ours.settimeout(PATIENCE_S)
            ours.recv(1, 0 if reads else socket.MSG_PEEK)
            assert process.poll() is None
            ours.close()
            status = process.wait(PATIENCE_S)

    assert status == -9
    assert not directory.exists()
