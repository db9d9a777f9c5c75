import gc
import io
import tarfile
import zipfile
from typing import Literal

import pytest

from app.workspaces.archive import Archive
from app.workspaces.records import GivenFile

FILES = [GivenFile("d/ä.txt", b"text" * 1_000), GivenFile("run", b"#!/bin/sh\n", is_executable=True)]


@pytest.mark.parametrize("form", ["zip", "tar"])
def test_the_same_files_are_the_same_archive(form: Literal["zip", "tar"]) -> None:
    def pieces() -> list[bytes]:
        archive = Archive(form)
        return [*(archive.add(file) for file in FILES), archive.end()]

    assert pieces() == pieces()


def test_other_programs_read_them() -> None:
    whole = {}
    for form in ("zip", "tar"):
        archive = Archive(form)
        whole[form] = io.BytesIO(b"".join([*map(archive.add, FILES), archive.end()]))

    with zipfile.ZipFile(whole["zip"]) as zipped:
        assert {name: zipped.read(name) for name in zipped.namelist()} == {
            file.path: file.content for file in FILES
        }
    with tarfile.open(fileobj=whole["tar"]) as members:
        assert [(each.name, each.isreg(), each.mode) for each in members] == [
            ("d/ä.txt", True, 0o644),
            ("run", True, 0o755),
        ]


@pytest.mark.parametrize("form", ["zip", "tar"])
def test_one_that_is_left_is_dropped_in_silence(form: Literal["zip", "tar"]) -> None:
    archive = Archive(form)
    archive.add(FILES[0])
    # As an exception does whose traceback has it.
    circle: list[object] = [archive]
    circle.append(circle)
    del archive, circle
    gc.collect()  # What fails in it fails the test.
