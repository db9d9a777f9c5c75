import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.workspaces.mounts import WorkspaceTooLarge
from app.workspaces.records import GivenFile
from app.workspaces.spec import Mount, WorkspaceSpec
from app.workspaces.workspace import Workspace


def a_workspace(
    parent: Path, *files: GivenFile, spec: WorkspaceSpec | None = None, keeps: bool = False
) -> Workspace:
    workspace = Workspace(spec or WorkspaceSpec(), [parent], files, keeps=keeps)
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


def kept_file(path: str, content: bytes, **more: Any) -> GivenFile:
    return GivenFile(path, content, origin="kept", **more)


def test_kept_files_replace_those_of_mounts_and_give_way_to_all_others(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    for name in ("a", "dir"):
        (tmp_path / "m" / name).write_text("mounted")
    spec = WorkspaceSpec(mounts=(Mount(host_path=tmp_path / "m"),), keep="conversation")

    workspace = a_workspace(
        tmp_path,
        kept_file("m/a", b"kept"),
        # What the agent has put in the place of directories, or of files, that are there now.
        *(kept_file(path, b"kept") for path in ("m/dir/below", "skills", "up", "new/file", "given")),
        GivenFile("skills/mail/SKILL.md", b"of the graph"),
        GivenFile("given", b"of the graph"),
        GivenFile("up/a", b"uploaded", origin="uploaded"),
        GivenFile("new", b"uploaded", origin="uploaded"),
        spec=spec,
        keeps=True,
    )

    assert kept(workspace) == {"m/a": "kept", "new": "uploaded", "up/a": "uploaded"}
    read = {path: (workspace.path / path).read_text() for path in ("m/a", "m/dir", "given", "new")}
    assert read == {"m/a": "kept", "m/dir": "mounted", "given": "of the graph", "new": "uploaded"}


def test_everything_that_is_kept_counts_and_what_exceeds_the_limits_is_named(tmp_path: Path) -> None:
    spec = WorkspaceSpec(max_bytes=10, keep="conversation")
    workspace = a_workspace(tmp_path, kept_file("k", b"x" * 8), spec=spec, keeps=True)
    (workspace.path / "n").write_bytes(b"x" * 3)
    os.truncate(os.open(workspace.path / "sparse", os.O_CREAT | os.O_WRONLY), 2**40)

    left = workspace.collect_outputs()

    assert (left.exceeds, left.left_out, list(left.files)) == (True, ["n", "sparse"], [])


def test_a_link_in_the_place_of_a_kept_file_is_its_deletion(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("no")
    workspace = a_workspace(tmp_path, kept_file("a", b"1\n"), kept_file("b", b"2"), keeps=True)
    (workspace.path / "a").unlink()
    (workspace.path / "a").symlink_to(tmp_path / "secret")
    (workspace.path / "other").hardlink_to(workspace.path / "b")

    left = workspace.collect_outputs()

    assert [(file.path, file.origin) for file in left.files] == [("b", "kept"), ("other", "created")]
    assert [(change.path, change.change) for change in left.changes.files] == [
        ("a", "deleted"),
        ("other", "created"),
    ]
    assert not left.exceeds


def test_the_content_of_a_mount_is_in_no_difference(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    for name in ("changed", "deleted"):
        (tmp_path / "m" / name).write_text("of the operator")
    workspace = a_workspace(tmp_path, spec=WorkspaceSpec(mounts=(Mount(host_path=tmp_path / "m"),)))
    (workspace.path / "m" / "changed").write_text("of the agent")
    (workspace.path / "m" / "deleted").unlink()

    changes = workspace.collect_outputs().changes.files

    assert [(change.change, change.diff) for change in changes] == [("changed", None), ("deleted", None)]


def test_of_large_directories_not_every_text_is_remembered(tmp_path: Path) -> None:
    texts = [kept_file(f"{number:03}", b"x" * 64_000) for number in range(140)]
    workspace = a_workspace(tmp_path, *texts, keeps=True)
    for name in ("000", "139"):
        (workspace.path / name).write_text("y")

    changes = workspace.collect_outputs().changes.files

    assert [(change.path, change.diff is None) for change in changes] == [("000", False), ("139", True)]
