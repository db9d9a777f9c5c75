import os
import subprocess
from pathlib import Path

import pytest

from app.workspaces.mounts import WorkspaceTooLarge
from app.workspaces.records import GivenFile
from app.workspaces.spec import Mount, WorkspaceSpec
from app.workspaces.workspace import Workspace


def a_workspace(parent: Path, *uploads: GivenFile, spec: WorkspaceSpec | None = None) -> Workspace:
    workspace = Workspace(spec or WorkspaceSpec(), [parent], uploads)
    path = parent / "workspace"
    path.mkdir()
    workspace.populate(path)
    return workspace


def kept(workspace: Workspace) -> dict[str, str]:
    return {file.path: file.origin for file in workspace.collect_outputs().files}


def test_uploaded_created_and_changed_files_are_distinguished(tmp_path: Path) -> None:
    workspace = a_workspace(
        tmp_path,
        GivenFile("same", b"1", origin="uploaded"),
        GivenFile("d/other", b"1", origin="uploaded"),
        GivenFile("gone", b"1", origin="uploaded"),
    )
    (workspace.path / "d" / "other").write_text("2")
    (workspace.path / "gone").unlink()
    (workspace.path / "new").write_text("3")

    harvest = workspace.collect_outputs()

    assert [(file.path, file.origin) for file in harvest.files] == [
        ("d/other", "changed"),
        ("new", "created"),
        ("same", "uploaded"),
    ]
    assert [workspace.content(file) for file in harvest.files] == [b"2", b"3", b"1"]
    assert not harvest.truncated


def test_an_upload_replaces_a_mounted_file(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "a").write_text("mounted")
    (tmp_path / "m" / "b").write_text("mounted")
    spec = WorkspaceSpec(mounts=(Mount(host_path=tmp_path / "m"),))

    workspace = a_workspace(tmp_path, GivenFile("m/a", b"uploaded", origin="uploaded"), spec=spec)

    assert (workspace.path / "m" / "a").read_text() == "uploaded"
    assert kept(workspace) == {"m/a": "uploaded"}
    assert (tmp_path / "m" / "a").read_text() == "mounted"


def test_links_pipes_and_files_with_invalid_names_are_not_stored(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("no")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "secret").write_text("no")
    workspace = a_workspace(tmp_path, GivenFile("was", b"a file", origin="uploaded"))
    path = workspace.path
    (path / "was").unlink()
    (path / "was").symlink_to(tmp_path / "secret")
    (path / "link").symlink_to(tmp_path / "secret")
    (path / "linked").symlink_to(tmp_path / "dir")
    os.mkfifo(path / "pipe")
    Path(os.fsdecode(bytes(path) + b"/\xff")).write_text("x")
    (path / "a\nb").write_text("x")
    (path / "fine").write_text("x")

    harvest = workspace.collect_outputs()

    assert [file.path for file in harvest.files] == ["fine"]
    assert harvest.truncated


def test_outputs_beyond_the_limits_are_dropped_and_reported_as_truncated(tmp_path: Path) -> None:
    workspace = a_workspace(tmp_path, spec=WorkspaceSpec(max_bytes=10, max_files=2))
    (workspace.path / "large").write_bytes(b"x" * 11)
    (workspace.path / "small").write_bytes(b"x" * 9)

    harvest = workspace.collect_outputs()

    assert ([file.path for file in harvest.files], harvest.truncated) == (["small"], True)
    for number in range(5):
        (workspace.path / str(number)).touch()
    harvest = workspace.collect_outputs()
    assert (len(harvest.files), harvest.truncated) == (2, True)


def test_uploads_larger_than_the_workspace_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceTooLarge):
        a_workspace(tmp_path, GivenFile("a", b"x" * 11, origin="uploaded"), spec=WorkspaceSpec(max_bytes=10))


def test_placeholders_of_the_sandbox_are_not_outputs(tmp_path: Path) -> None:
    workspace = a_workspace(tmp_path)
    for name, mode in ((".bashrc", 0o444), (".env", 0o644), ("empty", 0o444)):
        (workspace.path / name).touch()
        (workspace.path / name).chmod(mode)

    harvest = workspace.collect_outputs()

    assert [file.path for file in harvest.files] == [".env", "empty"]


def test_deep_and_unreadable_directories_can_be_read_and_removed(tmp_path: Path) -> None:
    workspace = a_workspace(tmp_path)
    (workspace.path / "top").write_text("x")
    (workspace.path / "shut").mkdir()
    (workspace.path / "shut" / "in").write_text("x")
    (workspace.path / "shut" / "in").chmod(0)
    (workspace.path / "shut").chmod(0)
    opened = os.open(workspace.path, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=opened)
        below = os.open("d", os.O_RDONLY, dir_fd=opened)
        os.close(opened)
        opened = below
    os.close(opened)

    harvest = workspace.collect_outputs()

    assert [file.path for file in harvest.files] == ["shut/in", "top"]
    assert harvest.truncated
    # Too deep for Python's own walkers, also those that clean up after tests.
    subprocess.run(["/bin/rm", "-rf", workspace.path], check=True)
