"""The folders of CLI processes are removed with whatever is in them."""

import threading
from pathlib import Path

from app.executors.claude_agent.process.directory import RunDirectory, server_directory


def test_two_may_remove_the_same_folder(tmp_path: Path) -> None:
    with server_directory(tmp_path) as parent:
        directory = RunDirectory(parent)
        for number in range(2_000):
            (directory.work / str(number)).touch()
        other = threading.Thread(target=directory.remove)
        other.start()

    other.join()
    assert list(tmp_path.iterdir()) == []
