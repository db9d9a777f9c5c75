"""The folders of CLI processes."""

import threading
from pathlib import Path

from app.executors.claude_agent.process.directory import RunDirectory, server_directory


def test_a_login_of_the_machine_is_left_as_it_is(tmp_path: Path) -> None:
    (login := tmp_path / "login").mkdir()

    with server_directory(tmp_path / "runs") as parent:
        directory = RunDirectory(parent, login=login)

        assert [*login.iterdir(), *directory.path.glob("config/*")] == []


def test_two_may_remove_the_same_folder(tmp_path: Path) -> None:
    with server_directory(tmp_path) as parent:
        directory = RunDirectory(parent)
        for number in range(2_000):
            (directory.work / str(number)).touch()
        other = threading.Thread(target=directory.remove)
        other.start()

    other.join()
    assert list(tmp_path.iterdir()) == []
